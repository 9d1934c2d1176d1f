"""The formats of sources, one row each; conversions and data in place find and list their source here.

A new format is a test in :mod:`.detection`, a description in :mod:`.options`, a module with a function that
lists a source, and a row here. The module loads for its format alone.

The first format that detects a source takes it: put a row before every format that would accept the same
sources, such as ``list``, which takes every file on a disk.

The function returns a :class:`.listing.Listing` and reads no image. ``find_files`` of :mod:`.image_files`
finds the named images, on a disk or at a URL, sorts them, and returns the rest as skips.
``Listing(**vars(found.files), ...)`` sets root, keys, sizes and times; ``found.entries`` says which name each
file had. A format of objects adds each to an :class:`.objects.ObjectTable`, in pixels with edges at integers;
``table.listed(rows, sizes, name)`` makes ``objects`` of it, where ``rows`` has the row of each object's
image; :class:`.objects.AnnotatedImages` does this for boxes. Labels are numbered from 0 by ``classes``. An
object that cannot be used raises BadObjectError and becomes a :class:`.listing.Skip`; a source without images
or objects raises SourceError. Classes are in the order of the source if it declares them, else sorted.

Further columns of the index go to ``Listing.columns``. Loaders return a column of numbers or strings. They
return columns of lists only if they are named ``label`` or ``object_*``, with one entry for each object;
others stay in the index. A column of labels is renumbered with the classes only if it is ``label`` or
``object_labels``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from stoker.arguments import one_of
from stoker.errors import ConfigError, SourceError, StokerError
from stoker.urls import is_url

from ..containers.shard_names import is_pattern
from ..options import declarations
from . import detection
from .listing import Listing
from .options import SOURCE_DESCRIPTIONS, SourceFormatName
from .source import Source


@dataclass(frozen=True)
class SourceFormat:
    """A format of sources."""

    name: SourceFormatName
    detects: Callable[[Source], bool]  # Whether a source has this format
    lists: str  # Module in this package and its function that lists a source, such as "coco.list_coco"
    has_captions: bool = False  # Whether a sample may have captions
    reads_instances: bool = False  # Whether the format reads the masks in ``instances`` itself


SOURCE_FORMATS = (
    SourceFormat("table", detection.is_table, "tables.list_table", has_captions=True),
    SourceFormat("recordio", detection.is_recordio, "archives.list_recordio"),
    SourceFormat("mds", detection.is_mds, "archives.list_mds", has_captions=True),
    SourceFormat("webdataset", detection.is_webdataset, "archives.list_tar", has_captions=True),
    SourceFormat("voc", detection.is_voc, "voc.list_voc"),
    SourceFormat(
        "open_images", detection.is_open_images, "open_images.list_open_images", reads_instances=True
    ),
    SourceFormat("coco", detection.is_coco, "coco.list_coco"),
    SourceFormat("list", detection.is_list, "file_list.list_named_images", has_captions=True),
    SourceFormat("yolo", detection.is_yolo, "yolo.list_yolo"),
    SourceFormat("pairs", detection.is_pairs, "masks.list_pairs"),
    SourceFormat("folder", lambda _: True, "class_folder.list_folder"),
)
"""In the order in which detection tries them: a source has the first format that detects it."""
_WITH_CAPTIONS = [row.name for row in SOURCE_FORMATS if row.has_captions]

_SPLIT = re.compile(r"(train|training|val|valid|validation|test|dev)(\d{4})?", re.IGNORECASE)
_MOST_FOLDERS = 50  # of a root; a folder of classes may have thousands
_MOST = 1_000  # files in a folder that are looked at
_NAMED = 4  # commands in a hint
_MASKS = {
    "images": ("annotations", "masks"),  # annotations in ADE20K
    "leftImg8bit": ("gtFine",),  # Cityscapes
    "JPEGImages": ("SegmentationClass",),
}


def find_format(source: Source, name: str | None = None) -> SourceFormat:
    """The format of a source: the one of this name, or the first that detects it."""
    if name is not None:
        named: dict[str, SourceFormat] = {row.name: row for row in SOURCE_FORMATS}
        return named[one_of("source_format", name, SOURCE_DESCRIPTIONS)]
    try:
        detected = next(row for row in SOURCE_FORMATS if row.detects(source))
        _check_is_no_root(source, detected.name)
        return detected
    except StokerError:
        raise
    except OSError as error:
        raise SourceError(f"the source cannot be read: {error.strerror}", path=source.path) from error


def list_source(source: Source, source_format: SourceFormat) -> Listing:
    """List the images of a source, with all labels, objects and masks that it has for them."""
    _check_options(source, source_format)
    if not is_url(source.path) and not is_pattern(source.path):
        try:
            Path(source.path).stat()
        except OSError as error:
            raise SourceError(f"the source cannot be read: {error.strerror}", path=source.path) from error
    options = source.options
    listing: Listing = _load("classes.with_distinct_names")(_load(source_format.lists)(source))
    if options.masks is not None:
        listing = _load("masks.with_masks")(listing, source.open(options.masks), options.ignore_index)
    if options.instances is not None and not source_format.reads_instances:
        has_mask_map = options.mask_map not in (None, "none")
        with_instances = _load("masks.with_instances")
        listing = with_instances(listing, source.open(options.instances), has_mask_map=has_mask_map)
    return listing


def _load(name: str) -> Callable[..., Any]:
    """Import a function of a module of this package."""
    module, _, function = name.partition(".")
    loaded: Callable[..., Any] = getattr(import_module(f".{module}", __package__), function)
    return loaded


def _check_options(source: Source, source_format: SourceFormat) -> None:
    """Raise ConfigError for an option that sources of this format do not have."""
    formats = {
        item.name: declaration.sources
        for item, declaration in declarations(source.options)
        if declaration.sources and getattr(source.options, item.name) != item.default
    }
    if source.caption_column is not None:
        formats["caption_column"] = tuple(_WITH_CAPTIONS)
    for name, allowed in formats.items():
        if source_format.name not in allowed:
            raise ConfigError(
                f"{name} is for sources of the format {' or '.join(allowed)}; this one is "
                f"{source_format.name}",
                hint=f"Leave {name} out, or name the format with source_format.",
            )


def _check_is_no_root(source: Source, detected: str) -> None:
    """Refuse a folder on a disk that holds several datasets, with the commands that convert each."""
    # Otherwise the root of Pascal VOC's datasets, of COCO's, of YOLO's splits, or of images and masks would
    # become a folder of classes, and a YOLO folder with several splits one dataset.
    root = Path(os.fspath(source.path))
    if is_url(source.path) or source.options.unlabelled or not root.is_dir():
        return
    if detected == "yolo":
        message = "the folder holds several splits of YOLO, which would become one dataset"
        _refuse(root, message, _yolo_splits(root), "to make one dataset of them: source_format='yolo'")
    folders = _folders(root)
    if detected != "folder" or len(folders) > _MOST_FOLDERS:
        return
    for name, commands in (
        ("Pascal VOC's datasets", _voc(folders)),
        ("COCO's datasets", _coco(root, folders)),
        ("YOLO's splits", _yolo(root, folders)),
        ("images and masks", _masks(root)),
    ):
        message = f"the folder is the root of {name}, not a folder of classes"
        _refuse(root, message, commands, "if its folders are classes: source_format='folder'")


def _refuse(root: Path, message: str, commands: list[str], otherwise: str) -> None:
    if commands:
        hint = f"Convert {'; or '.join(commands[:_NAMED])}; {otherwise}."
        raise SourceError(message, path=root, hint=hint)


def _entries(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return [folder / entry.name for _, entry in zip(range(_MOST), entries, strict=False)]
    except OSError:
        return []


def _folders(folder: Path) -> list[Path]:
    return sorted(one for one in _entries(folder) if one.is_dir())


def _data_files(root: Path) -> list[tuple[Path, list[tuple[str, ...]]]]:
    """The files of a folder that name the images of YOLO's splits, and the paths of each split."""
    found = []
    for file in (root / name for name in detection.YAML_NAMES if (root / name).is_file()):
        with suppress(SourceError):  # a file of names alone
            found.append((file, list(_load("yolo.read_data_file")(file).splits.values())))
    return found


def _yolo_splits(root: Path) -> list[str]:
    splits = [one for one in _folders(root / "images") if _SPLIT.fullmatch(one.name)]
    commands = [f"stoker convert {one} TARGET" for one in splits] if len(splits) > 1 else []
    for file, folders in _data_files(root):
        if len(set(folders)) > 1:
            commands = [f"stoker convert {file} TARGET", *commands]
    return commands


def _voc(folders: list[Path]) -> list[str]:
    commands = []
    for year in (one for one in folders if (one / "Annotations").is_dir() and (one / "JPEGImages").is_dir()):
        one = year / "ImageSets" / "Main" / "train.txt"
        commands += [f"one split: stoker convert {one} TARGET"] if one.is_file() else []
        commands.append(f"one year: stoker convert {year} TARGET")
    return commands


def _coco(root: Path, folders: list[Path]) -> list[str]:
    files = [
        file for folder in [root, *folders] for file in _entries(folder) if detection.is_coco(Source(file))
    ]
    files.sort(key=lambda file: (not file.name.startswith(("instances", "_annotations")), file))
    commands = []
    for file in files:
        images: Path | str = file.parent
        if file.parent.name == "annotations":
            inside = [one for folder in folders if folder.name == "images" for one in _folders(folder)]
            named = [one for one in [*folders, *inside] if one.name in file.stem]
            images = max(named, key=lambda one: len(one.name), default="DIR")
        commands.append(f"one file: stoker convert {file} TARGET --images {images}")
    return commands


def _yolo(root: Path, folders: list[Path]) -> list[str]:
    for file, _ in _data_files(root):
        return [f"all splits: stoker convert {file} TARGET"]
    splits = [one for one in folders if (one / "images").is_dir() and (one / "labels").is_dir()]
    if not splits and any((root / name).is_file() for name in detection.YAML_NAMES):
        return [f"a folder of images with labels beside it: {root}/images/x.jpg and {root}/labels/x.txt"]
    return [f"a split: stoker convert {split} TARGET" for split in splits]


def _masks(root: Path) -> list[str]:
    """The commands for images and their masks; of one split, where the folders hold several."""
    commands = []
    pairs = [(root / images, root / name) for images, names in _MASKS.items() for name in names]
    for images, masks in (pair for pair in pairs if all(one.is_dir() for one in pair)):
        splits = [one.name for one in _folders(images) if _SPLIT.fullmatch(one.name)]
        splits = [name for name in splits if (masks / name).is_dir()]
        splits.sort(key=lambda name: not name.lower().startswith("train"))
        first = splits[0] if splits else "."
        options = {"masks": f"--masks {masks / first}"}
        if masks.name == "gtFine":  # Cityscapes' folder has instance masks beside class masks
            options = {
                "objects": f"--instances {masks / first}",
                "classes": f"--masks {masks / first} --mask-map cityscapes",
            }
        elif masks.name == "annotations" and any(
            detection.is_of_ade20k(str(one)) for one in _entries(images / first)
        ):
            options["masks"] += " --mask-map ade20k"
        others = f" (and in the same way, each with another TARGET: {', '.join(splits[1:])})"
        several = len(splits) > 1
        for kind, option in options.items():
            command = f"with {kind}: stoker convert {images / first} TARGET {option}"
            commands.append(f"one split {command}{others}" if several else command)
    return commands
