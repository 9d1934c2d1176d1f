"""The options about a source of images, and the names of its formats.

The module loads no reader, so that the command line can show names and options.
"""

from __future__ import annotations

from typing import Literal

SourceFormatName = Literal[
    "folder", "list", "coco", "voc", "yolo", "open_images", "pairs", "webdataset", "table", "recordio", "mds"
]
"""One name for each row of :data:`stoker.formats.sources.registry.SOURCE_FORMATS`."""

SOURCE_DESCRIPTIONS: dict[SourceFormatName, str] = {
    "folder": "a folder with one folder for each class",
    "list": "a .csv, .json, .jsonl or .txt list of path and label",
    "coco": "a JSON object of COCO",
    "voc": "a folder of Pascal VOC, or a list in its ImageSets",
    "yolo": "a folder of YOLO, or its data.yaml for all splits",
    "open_images": "a CSV of boxes of Open Images",
    "webdataset": "tar archives of WebDataset, as a folder, a pattern or 'train-{000..099}.tar'",
    "table": "Parquet files, as a pattern or a folder, or a folder that save_to_disk made",
    "recordio": "MXNet's .rec files",
    "mds": "a folder of Mosaic Streaming",
    "pairs": "with a folder of masks (of classes, or of objects), a folder of images",
}
"""A description of a source of each format, for the help of the command line and for messages."""
