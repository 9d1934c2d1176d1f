"""The options about a source of images, and the names of its formats.

The module loads no reader, so that the command line can show names and options.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..options import check_options, option, whole

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

_READING, _FOLDERS, _MASKS, _MEMBERS = "Source", "Folders", "Masks", "Lists, tables and archives"
_ARCHIVES = ("table", "mds", "webdataset")


@dataclass(frozen=True)
class SourceOptions:
    """How :func:`stoker.convert` reads a source of images.

    An option of some formats alone, such as ``class_depth`` of folders, is refused for a source of another
    format.

    Args:
        source_format: Name of the format of the source, such as ``folder`` or ``coco``; by default it is
            detected.
        follow_links: Whether to follow links in the source, to files and folders anywhere.
        class_depth: Number of leading folders that name the class; None for all of them.
        unlabelled: Whether the images of a folder have no labels; folders in it name no classes.
        images: Folder or URL of the images that a file of annotations (COCO, Open Images) or a list names; by
            default the folder of that file.
        path_column: Name of the column of a list that has the paths, by default ``path``.
        label_column: Name of the column of a list (by default ``label``) or of a table that has the labels,
            or the member of a tar archive, such as ``json:label``.
        image_column: Name of the column of a table that has the images, or the members of a tar archive, such
            as ``jpg;png``.
        suffix: Text to append to every path of a list, such as ``.jpg`` where the list has names without it.
        fields: Further columns of tables and members of tar archives: the name of a column in the dataset, or
            ``key``, by the name in the source, such as ``{"json:text": "caption"}``. None leaves one out. For
            datasets of dicts in Python: names of :meth:`stoker.Writer.write` by names of fields, such as
            ``{"picture": "image", "fine_label": "label", "uuid": "key", "coarse_label": None}``.
        make: For samples from Python: called with each item of the source, in ``num_threads`` processes or on
            Ray; returns a sample, or None to leave the item out.
        masks: Folder or URL with a mask of classes for each image. A mask has the path of its image, up to
            the suffix, or the names of Cityscapes.
        instances: Folder or URL with a mask for each image, whose values number its objects. The objects get
            boxes, areas and masks. Values are ``class * 1000 + n`` (Cityscapes' ``instanceIds``). With
            ``masks``, values are plain numbers, and the class of an object is that of most of its pixels in
            ``masks`` (Pascal VOC's ``SegmentationObject``). These objects replace those of other annotations.
            For Open Images, the folder of the masks of single objects that its CSV names.
        ignore_index: Value in masks for pixels without a class; None if there is none.
        mask_map: Classes by the values of masks: ``{0: 255, 1: 0}``, or ``"0:255,1:0"``; by colours:
            ``{(255, 0, 0): 1}``, or ``"#ff0000:1"``. Or a name: ``ade20k`` ignores value 0 and counts the
            classes from 0 (MMSegmentation's ``reduce_zero_label``), ``cityscapes`` makes training classes of
            ``labelIds``, and ``none`` keeps these. An image whose mask has another value is left out.
    """

    source_format: SourceFormatName | None = option(
        None,
        f"Format of the source: {', '.join(SOURCE_DESCRIPTIONS)}; by default it is detected.",
        _READING,
    )
    follow_links: bool = option(True, "Follow links in the source, wherever they lead.", _READING)
    class_depth: int | None = option(
        None,
        "Number of directory levels that name a class; by default all, as in animals/cat.",
        _FOLDERS,
        check=whole(1, 4096),
        sources=("folder",),
    )
    unlabelled: bool = option(
        False,
        "The images of a folder have no labels; folders name no classes.",
        _FOLDERS,
        sources=("folder",),
    )
    images: str | os.PathLike[str] | None = option(
        None,
        "Folder or URL of the images that a list or a file of annotations names; by default its own folder.",
        _READING,
        sources=("list", "coco", "open_images"),
    )
    path_column: str | None = option(
        None, "Column of a list with the paths; by default path.", _MEMBERS, sources=("list",)
    )
    label_column: str | None = option(
        None,
        "Column of a list or table with the labels, or member of a tar, such as json:label; by default "
        "label, or cls in a tar.",
        _MEMBERS,
        sources=("list", *_ARCHIVES),
    )
    image_column: str | None = option(
        None,
        "Column of a table with the images, or suffixes of the images in a tar, by default "
        "'jpg;jpeg;png;webp'.",
        _MEMBERS,
        sources=_ARCHIVES,
    )
    suffix: str | None = option(
        None, "Text to append to every path of a list, such as .jpg.", _MEMBERS, sources=("list",)
    )
    fields: Mapping[str, str | None] | None = option(
        None,
        "Further columns of a table, or members of a tar.",
        _MEMBERS,
        sources=_ARCHIVES,
        on_command_line=False,
    )
    make: Callable[[Any], Any] | None = option(
        None, "Makes a sample of an item of Python.", _READING, on_command_line=False
    )
    masks: str | os.PathLike[str] | None = option(
        None, "Folder or URL with a mask of classes for each image.", _MASKS
    )
    instances: str | os.PathLike[str] | None = option(
        None, "Folder or URL with a mask for each image, whose values number its objects.", _MASKS
    )
    ignore_index: int | None = option(
        255, "Value of mask pixels that belong to no class.", _MASKS, check=whole(0, 65535)
    )
    mask_map: str | Mapping[Any, int] | None = option(
        None,
        "Class of each value or colour in masks, such as 0:255,1:0 or #ff0000:1; or a name: ade20k (value 0 "
        "is ignored), cityscapes (labelIds become training classes), none.",
        _MASKS,
    )

    def __post_init__(self) -> None:
        check_options(self)
