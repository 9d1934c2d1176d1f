"""Roots of annotated datasets, which detection would take for folders of classes, and YOLO's splits.

The error for the root of Pascal VOC's datasets, of COCO's, of YOLO's splits, or of images and masks has the
command that converts a dataset in it. A YOLO folder with several splits would become one dataset.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from stoker.errors import SourceError
from stoker.urls import is_url

from .detection import YAML_NAMES, is_coco, is_of_ade20k
from .source import Source

_SPLIT = re.compile(r"(train|training|val|valid|validation|test|dev)(\d{4})?", re.IGNORECASE)
_MOST_FOLDERS = 50  # of a root; a folder of classes may have thousands
_MOST = 1_000  # files in a folder that are looked at
_NAMED = 4  # commands in a hint
_MASKS = (
    ("images", "annotations"),  # ADE20K
    ("images", "masks"),
    ("leftImg8bit", "gtFine"),  # Cityscapes
    ("JPEGImages", "SegmentationClass"),
)


def check_is_no_root(source: Source) -> None:
    """Check that a folder on a disk is not the root of annotated datasets; URLs are not looked at."""
    path = os.fspath(source.path)
    if is_url(path) or source.options.unlabelled or not Path(path).is_dir():
        return
    root = Path(path)
    folders = sorted(one for one in _entries(root) if one.is_dir())
    if len(folders) > _MOST_FOLDERS:
        return
    for name, commands_of in _KINDS.items():
        if commands := commands_of(root, folders):
            raise SourceError(
                f"the folder is the root of {name}, not a folder of classes",
                path=root,
                hint=f"Convert {'; or '.join(commands[:_NAMED])}; if its folders are classes: "
                "source_format='folder'.",
            )


def check_has_one_split(source: Source) -> None:
    """Check that a folder of YOLO on a disk does not hold several splits; URLs are not looked at."""
    root = Path(os.fspath(source.path))
    if is_url(source.path) or not root.is_dir():
        return
    splits = sorted(one for one in _entries(root / "images") if one.is_dir() and _SPLIT.fullmatch(one.name))
    commands = [f"stoker convert {one} TARGET" for one in splits] if len(splits) > 1 else []
    for file, folders in _splits_of_data_files(root):
        if len(set(folders)) > 1:
            commands = [f"stoker convert {file} TARGET", *commands]
    if commands:
        raise SourceError(
            "the folder holds several splits of YOLO, which would become one dataset",
            path=root,
            hint=f"Convert {'; or '.join(commands[:_NAMED])}; to make one dataset of them: "
            "source_format='yolo'.",
        )


def _splits_of_data_files(root: Path) -> list[tuple[Path, list[tuple[str, ...]]]]:
    """The files of a folder that name the images of splits, and the paths of each split."""
    found = []
    for file in (root / name for name in YAML_NAMES if (root / name).is_file()):
        from .yolo import read_data_file  # loads a parser of YAML

        with suppress(SourceError):  # a file of names alone
            found.append((file, list(read_data_file(file).splits.values())))
    return found


def _entries(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return [folder / entry.name for _, entry in zip(range(_MOST), entries, strict=False)]
    except OSError:
        return []


def _voc(root: Path, folders: list[Path]) -> list[str]:
    commands = []
    for year in (one for one in folders if (one / "Annotations").is_dir() and (one / "JPEGImages").is_dir()):
        one = year / "ImageSets" / "Main" / "train.txt"
        commands += [f"one split: stoker convert {one} TARGET"] if one.is_file() else []
        commands.append(f"one year: stoker convert {year} TARGET")
    return commands


def _coco(root: Path, folders: list[Path]) -> list[str]:
    files = [file for folder in [root, *folders] for file in _entries(folder) if is_coco(Source(file))]
    files.sort(key=lambda file: (not file.name.startswith(("instances", "_annotations")), file))
    return [f"one file: stoker convert {file} TARGET --images {_images_of(file, folders)}" for file in files]


def _images_of(file: Path, folders: list[Path]) -> Path | str:
    """The folder of the images of a COCO file, by its name."""
    if file.parent.name != "annotations":
        return file.parent
    inside = [
        one for folder in folders if folder.name == "images" for one in _entries(folder) if one.is_dir()
    ]
    named = [one for one in [*folders, *inside] if one.name in file.stem]
    return max(named, key=lambda one: len(one.name), default="DIR")


def _yolo(root: Path, folders: list[Path]) -> list[str]:
    for file, _ in _splits_of_data_files(root):
        return [f"all splits: stoker convert {file} TARGET"]
    splits = [one for one in folders if (one / "images").is_dir() and (one / "labels").is_dir()]
    if not splits and any((root / name).is_file() for name in YAML_NAMES):
        return [f"a folder of images with labels beside it: {root}/images/x.jpg and {root}/labels/x.txt"]
    return [f"a split: stoker convert {split} TARGET" for split in splits]


def _masks(root: Path, folders: list[Path]) -> list[str]:
    names = {one.name for one in folders}
    pairs = [pair for pair in _MASKS if names.issuperset(pair)]
    return [command for images, masks in pairs for command in _commands_of(root / images, root / masks)]


def _commands_of(images: Path, masks: Path) -> list[str]:
    """The commands for images and their masks; of one split, where the folders hold several."""
    inside = [one.name for one in _entries(images) if _SPLIT.fullmatch(one.name) and one.is_dir()]
    splits = sorted(name for name in inside if (masks / name).is_dir())
    splits.sort(key=lambda name: not name.lower().startswith("train"))
    first = splits[0] if splits else "."
    convert, target = f"stoker convert {images / first} TARGET", masks / first
    if masks.name == "gtFine":  # Cityscapes' folder has instance masks beside class masks
        commands = {
            "objects": f"{convert} --instances {target}",
            "classes": f"{convert} --masks {target} --mask-map cityscapes",
        }
    else:
        names = (one.as_posix() for one in _entries(images / first))
        is_ade = masks.name == "annotations" and any(map(is_of_ade20k, names))
        commands = {"masks": f"{convert} --masks {target}{' --mask-map ade20k' * is_ade}"}
    if len(splits) < 2:
        return [f"with {kind}: {command}" for kind, command in commands.items()]
    others = f"and in the same way, each with another TARGET: {', '.join(splits[1:])}"
    return [f"one split with {kind}: {command} ({others})" for kind, command in commands.items()]


_KINDS: dict[str, Callable[[Path, list[Path]], list[str]]] = {
    "Pascal VOC's datasets": _voc,
    "COCO's datasets": _coco,
    "YOLO's splits": _yolo,
    "images and masks": _masks,
}
