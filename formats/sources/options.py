"""The options about a source of images, and the names of its formats.

The module loads no reader, so that the command line can show names and options.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stoker.arguments import NamedArguments
from stoker.errors import ConfigError

from ..options import check_options, one_of, option, whole

SourceFormatName = Literal[
    "folder", "list", "coco", "voc", "yolo", "labelme", "open_images", "pairs", "webdataset", "table",
    "recordio", "mds", "dataset", "shards",
]  # fmt: skip
"""One name for each row of :data:`stoker.formats.sources.registry.SOURCE_FORMATS`."""

SOURCE_DESCRIPTIONS: dict[SourceFormatName, str] = {
    "folder": "a folder with one folder for each class",
    "list": "a .csv, .tsv, .json, .jsonl or .txt list of path and label",
    "coco": "a JSON object of COCO",
    "voc": "a folder of Pascal VOC, or a list in its ImageSets",
    "yolo": "a folder of YOLO, or its data.yaml or obj.data for all splits",
    "labelme": "a folder of images and labelme's .json files",
    "open_images": "a CSV of boxes of Open Images",
    "webdataset": "tar archives of WebDataset, as a folder, a pattern or 'train-{000..099}.tar'",
    "table": "Parquet files, as a pattern or a folder, or a folder that save_to_disk made",
    "recordio": "MXNet's .rec files",
    "mds": "a folder of Mosaic Streaming",
    "shards": "TFRecord files or LMDB folders, as a pattern or a folder",
    "dataset": "a dataset of Stoker",
    "pairs": "with a folder of masks (of classes, or of objects), a folder of images",
}
"""A description of a source of each format, for the help of the command line and for messages."""

_READING, _FOLDERS, _MASKS, _MEMBERS = "Source", "Folders", "Masks", "Lists, tables and archives"
_ARCHIVES = ("table", "mds", "webdataset", "shards")


def _check_pairs(name: str, value: Any) -> tuple[tuple[str, str], ...]:
    items = [value] if isinstance(value, str) else value.items() if isinstance(value, Mapping) else value
    pairs: list[Any] = []
    for one in items:
        pairs += [part.split(":") for part in one.split(",")] if isinstance(one, str) else [tuple(one)]
    if pairs == [["none"]]:
        return ()
    if not pairs or any(len(pair) != 2 or "" in pair for pair in pairs):
        raise ConfigError(
            f"{name} must be pairs of keypoints, such as left_eye:right_eye or 1:2, or none, found {value!r}"
        )
    return tuple((str(one), str(other)) for one, other in pairs)


@dataclass(frozen=True)
class SourceOptions(NamedArguments):
    """How :func:`stoker.convert` reads a source of images.

    An option of some formats alone, such as ``class_depth`` of folders, is refused for a source of another
    format.
    """

    source_format: SourceFormatName | None = option(
        None,
        f"Format of the source: {', '.join(SOURCE_DESCRIPTIONS)}; by default it is detected.",
        _READING,
    )
    follow_links: bool = option(True, "Follow links in the source, wherever they lead.", _READING)
    outside: bool = option(
        False,
        "Read images at absolute paths anywhere, not only in the folder of their list or in images; and a "
        "data.yaml may name folders outside its own.",
        _READING,
        sources=("list", "coco", "yolo"),
    )
    class_depth: int | None = option(
        None,
        "Number of directory levels that name a class; by default all, as in animals/cat.",
        _FOLDERS,
        check=whole(1, 4096),
        sources=("folder",),
    )
    unlabelled: bool = option(
        False,
        "Take all images as samples without labels: folders name no classes, and the numbers of a list, a "
        "table or an archive are columns, as to predict them.",
        _READING,
        sources=("folder", "list", *_ARCHIVES),
    )
    images: str | os.PathLike[str] | None = option(
        None,
        "Folder or URL of the images that a list or files of annotations name; by default beside them.",
        _READING,
        sources=("list", "coco", "open_images", "voc", "yolo", "labelme"),
    )
    crowds_as_objects: bool = option(
        False,
        "Read COCO's crowds (iscrowd) as single objects, as CVAT marks all masks of a brush as crowds.",
        _READING,
        sources=("coco",),
    )
    keypoint_pairs: Sequence[str] | Mapping[str, str] | str | None = option(
        None,
        "Keypoints of the left and right side, which a mirrored image exchanges, by name or number from 0: "
        "left_eye:right_eye,3:4. By default names such as l_eye, or the source, say it; none means that no "
        "keypoint has a side.",
        _READING,
        check=_check_pairs,
        metavar="A:B",
        repeatable=True,
        sources=("coco", "yolo"),
    )
    annotations_before_exif: bool = option(
        False,
        "Turn objects and masks by the EXIF orientation of their image: they were made on its pixels as "
        "stored, as by Label Studio and by programs that read images without EXIF.",
        _READING,
        sources=("coco", "voc", "yolo", "labelme", "open_images", "pairs"),
    )
    path_column: str | None = option(
        None, "Column of a list with the paths; by default path.", _MEMBERS, sources=("list",)
    )
    label_column: str | None = option(
        None,
        "Column of a list or table with the labels, feature of TFRecords, or member of a tar, such as "
        "json:label; by default label, image/class/label, or cls in a tar. Of a list also several columns "
        "of 0 and 1, a class each: cat,dog.",
        _MEMBERS,
        sources=("list", *_ARCHIVES),
    )
    label_separator: str | None = option(
        None,
        "Text between several labels of an image in one text of a list or table, such as '|' or ' '; '' if "
        "a text is one label. By default | in the column labels of CSV.",
        _MEMBERS,
        sources=("list", "table"),
    )
    label_type: str | None = option(
        None,
        "Form of labels that are several numbers: first (the first is the class), several, one-hot or "
        "multi-hot (a number for each class); or shard: each shard of an archive is a class.",
        _MEMBERS,
        sources=("list", *_ARCHIVES, "recordio"),
        check=one_of("first", "several", "one-hot", "multi-hot", "shard"),
    )
    image_column: str | None = option(
        None,
        "Column of a table or feature of TFRecords with the images, or suffixes of the images in a tar, by "
        "default 'jpg;jpeg;png;webp'.",
        _MEMBERS,
        sources=_ARCHIVES,
    )
    suffix: str | None = option(
        None, "Text to append to every path of a list, such as .jpg.", _MEMBERS, sources=("list",)
    )
    box_format: Literal["xyxy", "xywh", "cxcywh"] | None = option(
        None,
        "Format of the boxes in a column of objects, such as Hugging Face's: xywh (left, top, width, height; "
        "the default), xyxy or cxcywh, in pixels.",
        _MEMBERS,
        check=one_of("xyxy", "xywh", "cxcywh"),
        sources=("table",),
    )
    fields: Mapping[str, str | None] | None = option(
        None,
        "Further columns of a table or members of a tar: a name in the dataset, or key, by the name in the "
        "source, such as {'json:text': 'caption'}; None leaves one out. For dicts from Python, names of "
        "Writer.write by names of fields.",
        _MEMBERS,
        sources=_ARCHIVES,
        on_command_line=False,
    )
    make: Callable[[Any], Any] | None = option(
        None,
        "For items from Python: called with each, in num_threads processes or on Ray; returns a sample, or "
        "None to leave the item out.",
        _READING,
        on_command_line=False,
    )
    masks: str | os.PathLike[str] | None = option(
        None, "Folder or URL with a class mask for each image, under the same name up to the suffix.", _MASKS
    )
    instances: str | os.PathLike[str] | None = option(
        None,
        "Folder or URL with a mask for each image, whose values number its objects: class * 1000 + n as in "
        "Cityscapes, or plain numbers if masks has the classes. These objects replace all others. For Open "
        "Images, the folder with a mask for each object.",
        _MASKS,
    )
    ignore_index: int | None = option(
        255, "Value of mask pixels that belong to no class.", _MASKS, check=whole(0, 65535)
    )
    mask_map: str | Mapping[Any, int] | None = option(
        None,
        "Class of each value or colour in masks, such as 0:255,1:0 or #ff0000:1; or CVAT's labelmap.txt; or "
        "a name: ade20k (value 0 is ignored), cityscapes (labelIds become training classes), none. An image "
        "whose mask has another value is left out.",
        _MASKS,
    )

    def __post_init__(self) -> None:
        check_options(self)
