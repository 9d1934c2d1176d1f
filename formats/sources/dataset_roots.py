"""Roots of annotated datasets, which detection would take for folders of classes, and YOLO's splits.

The error for the root of Pascal VOC's datasets, of COCO's, of YOLO's splits, or of images and masks has the
command that converts a dataset in it. A YOLO folder with several splits would become one dataset.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from stoker.errors import SourceError
from stoker.urls import is_url

from .detection import YAML_NAMES, is_coco, is_of_ade20k
from .source import Source

_SPLIT = re.compile(r"(train|training|val|valid|validation|test|dev)(\d{4})?", re.IGNORECASE)
_MOST_FOLDERS = 50  # of a root; a folder of classes may have thousands
_MOST = 1_000  # files in a folder that are looked at
_NAMED = 4  # commands in a hint
_MASKS = {
    "images": ("annotations", "masks"),  # annotations in ADE20K
    "leftImg8bit": ("gtFine",),  # Cityscapes
    "JPEGImages": ("SegmentationClass",),
}


def check_is_no_root(source: Source) -> None:
    """Check that a folder on a disk is not the root of annotated datasets; URLs are not looked at."""
    path = os.fspath(source.path)
    if is_url(path) or source.options.unlabelled or not Path(path).is_dir():
        return
    root = Path(path)
    folders = _folders(root)
    if len(folders) > _MOST_FOLDERS:
        return
    for name, commands in (
        ("Pascal VOC's datasets", _voc(folders)),
        ("COCO's datasets", _coco(root, folders)),
        ("YOLO's splits", _yolo(root, folders)),
        ("images and masks", _masks(root)),
    ):
        if commands:
            message = f"the folder is the root of {name}, not a folder of classes"
            _fail(root, message, commands, "if its folders are classes: source_format='folder'")


def check_has_one_split(source: Source) -> None:
    """Check that a folder of YOLO on a disk does not hold several splits; URLs are not looked at."""
    root = Path(os.fspath(source.path))
    if is_url(source.path) or not root.is_dir():
        return
    splits = [one for one in _folders(root / "images") if _SPLIT.fullmatch(one.name)]
    commands = [f"stoker convert {one} TARGET" for one in splits] if len(splits) > 1 else []
    for file, folders in _data_files(root):
        if len(set(folders)) > 1:
            commands = [f"stoker convert {file} TARGET", *commands]
    if commands:
        message = "the folder holds several splits of YOLO, which would become one dataset"
        _fail(root, message, commands, "to make one dataset of them: source_format='yolo'")


def _fail(root: Path, message: str, commands: list[str], otherwise: str) -> NoReturn:
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
    for file in (root / name for name in YAML_NAMES if (root / name).is_file()):
        from .yolo import read_data_file  # loads a parser of YAML

        with suppress(SourceError):  # a file of names alone
            found.append((file, list(read_data_file(file).splits.values())))
    return found


def _voc(folders: list[Path]) -> list[str]:
    commands = []
    for year in (one for one in folders if (one / "Annotations").is_dir() and (one / "JPEGImages").is_dir()):
        one = year / "ImageSets" / "Main" / "train.txt"
        commands += [f"one split: stoker convert {one} TARGET"] if one.is_file() else []
        commands.append(f"one year: stoker convert {year} TARGET")
    return commands


def _coco(root: Path, folders: list[Path]) -> list[str]:
    files = [file for folder in [root, *folders] for file in _entries(folder) if is_coco(Source(file))]
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
    if not splits and any((root / name).is_file() for name in YAML_NAMES):
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
        elif masks.name == "annotations" and any(is_of_ade20k(str(one)) for one in _entries(images / first)):
            options["masks"] += " --mask-map ade20k"
        others = f" (and in the same way, each with another TARGET: {', '.join(splits[1:])})"
        several = len(splits) > 1
        for kind, option in options.items():
            command = f"with {kind}: stoker convert {images / first} TARGET {option}"
            commands.append(f"one split {command}{others}" if several else command)
    return commands
