"""Annotations beside the images of a folder: the tool that wrote them, and where both lie.

Names decide, and the start of some files. :func:`find_layout` serves the formats that are read (Pascal VOC,
YOLO, labelme) and the refusal of all others in :mod:`.roots`.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from stoker.urls import is_url

from ..containers.shard_names import is_pattern
from .image_files import has_image_suffix
from .source import NAMES_FILES, Source

SAMPLED = 8
"""Folders in a folder that are looked at."""
VOC, YOLO, LABELME = "Pascal VOC", "YOLO", "labelme"
FORMATS = {VOC: "voc", YOLO: "yolo", LABELME: "labelme"}
"""The formats that are read, and their names among the sources."""
TABLE, TEXTS, UNKNOWN, MASKS = "a table of boxes", "texts", "an unknown format", "masks"
METADATA = "metadata with objects"
_MOST = 1_000  # files in a folder that are looked at
_IMAGES = 64  # images of a folder that may have annotations
_HEAD = 4096  # bytes of a file of annotations
MASK_ENDS = ("_mask", "-mask", "_masks", "_segmentation", "_seg", "_gt", "_label")
"""What may follow the name of an image in the name of its mask."""
_SUFFIXES = (".xml", ".txt", ".json", ".XML", ".TXT", ".JSON")
_TABLES = (".csv", ".tsv")
_OF_TOOLS = (".xml", ".json", *_TABLES, ".jsonl")
_BOXES = ("bbox", "xmin ymin", "x1 y1", "left top", "x y w h", "x y width height")
"""Columns of tables of boxes, in lower case and without underscores."""
_NUMBER = re.compile(r"-?\d*\.?\d+([eE][-+]?\d+)?")
_KEYS = (
    ("VGG Image Annotator", ("filename", "regions")),
    (LABELME, ("shapes", "imagePath")),
    ("Label Studio", ("annotations", "data")),
    ("Label Studio", ("original_width", "original_height")),  # its shorter form
    ("CreateML", ("annotations", "coordinates")),
    ("Supervisely", ("objects", "size")),
    ("Datumaro", ("categories", "items")),
)
"""Keys at the start of the JSON of a tool."""


class Layout(NamedTuple):
    """Annotations of some format, and where they lie."""

    kind: str  # The format or the tool
    file: str  # One of the files
    at: str  # The folder in which they were found
    # The folders of the images and of the annotations, both ``at`` where a file lies beside its image
    images: str = ""
    annotations: str = ""


class Tree:
    """The names in the folders of a source, on a disk or at a URL, without hidden ones."""

    def __init__(self, source: Source) -> None:
        self.source, self.root = source, os.fspath(source.path).rstrip("/")
        self._known: dict[str, tuple[list[str], list[str]]] = {}
        if is_url(self.root):
            found = defaultdict[str, tuple[set[str], set[str]]](lambda: (set(), set()))
            for name in source.folder.names(""):
                *parents, file = name.split("/")
                found["/".join(parents)][1].add(file)
                for level, folder in enumerate(parents):
                    found["/".join(parents[:level])][0].add(folder)
            self._known = {path: (sorted(one), sorted(files)) for path, (one, files) in found.items()}

    def at(self, path: str) -> tuple[list[str], list[str]]:
        """The folders and the files in a folder, at most :data:`_MOST` of them on a disk."""
        if path not in self._known and not is_url(self.root):
            folders, files = list[str](), list[str]()
            self._known[path] = folders, files
            with suppress(OSError), os.scandir(Path(self.root, path)) as entries:
                for _, entry in zip(range(_MOST), entries, strict=False):
                    if not entry.name.startswith((".", "__MACOSX")):
                        (folders if entry.is_dir() else files).append(entry.name)
            folders.sort()
            files.sort()
        return self._known.get(path, ([], []))

    def folders(self, path: str) -> list[str]:
        return self.at(path)[0]

    def images(self, path: str) -> list[str]:
        return [one for one in self.at(path)[1] if has_image_suffix(one)]

    def has(self, path: str, name: str) -> bool:
        if name in self.at(path)[1]:
            return True
        is_whole = is_url(self.root) or sum(map(len, self.at(path))) < _MOST
        return not is_whole and Path(self.root, path, name).is_file()

    def walk(self, path: str = "", depth: int = 3) -> Iterator[str]:
        """The folder and those in it, to a depth, :data:`SAMPLED` of each."""
        yield path
        for name in self.folders(path)[:SAMPLED] if depth else ():
            yield from self.walk(inside(path, name), depth - 1)

    def named(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def kind(self, file: str) -> str | None:
        return kind_of(file, self.source.folder.head(file, _HEAD))


def inside(path: str, name: str) -> str:
    """The path of a name in a folder; either may be empty."""
    return f"{path}/{name}" if path and name else path or name


def find_layout(source: Source) -> Layout | None:
    """The annotations of the images in a folder; None where there are none, or the caller names classes."""
    if not source.layouts:
        source.layouts.append(_find(source))
    layout: Layout | None = source.layouts[0]
    return layout


def readable_layout(source: Source, kind: str) -> Layout | None:
    """Where images and annotations of a format that is read lie in a folder."""
    layout = find_layout(source)
    if layout is None or layout.kind != kind:
        return None
    if layout.images == layout.annotations:  # each beside its image: whatever folders there are
        return layout._replace(images="", annotations="")
    return None if layout.at else layout


def _find(source: Source) -> Layout | None:
    options, path = source.options, os.fspath(source.path).rstrip("/")
    is_folder = not PurePosixPath(path).suffix if is_url(path) else Path(path).is_dir()
    if options.unlabelled or options.class_depth is not None or is_pattern(path) or not is_folder:
        return None
    tree = Tree(source)
    if options.images is not None:
        files = [file for file in tree.at("")[1] if file.endswith(_SUFFIXES) and file not in NAMES_FILES]
        return Layout(*_kind_of_some(tree, "", files[:_IMAGES]), "") if files else None
    for at in tree.walk():
        if found := _beside(tree, at) or _apart(tree, at) or _of_tools(tree, at):
            return found
    return None


def _beside(tree: Tree, path: str) -> Layout | None:
    """Annotations under the names of the images of a folder."""
    images = tree.images(path)
    stems = [os.path.splitext(one)[0] for one in images]  # noqa: PTH122 - a name
    if not stems:
        return None
    for end in MASK_ENDS:
        if 2 * len(paired := {stem + end for stem in stems} & set(stems)) >= len(stems) - len(paired):
            return Layout(MASKS, inside(path, images[stems.index(min(paired))]), path)
    sampled = stems[:: max(1, len(stems) // _IMAGES)]
    for suffix in _SUFFIXES:
        names = [f"{stem}{suffix}" for stem in sampled if tree.has(path, f"{stem}{suffix}")]
        if not names:
            continue
        kind, file = _kind_of_some(tree, path, names)
        # Some images may have no objects.
        if 2 * len(names) >= len(sampled) or kind not in (TEXTS, UNKNOWN):
            return Layout(kind, file, path, path, path)
    return None


def _apart(tree: Tree, path: str) -> Layout | None:
    """Annotations in a folder beside the folder of their images, or one of both in the other."""
    inner = [[one, *tree.folders(inside(path, one))[:SAMPLED]] for one in tree.folders(path)[:SAMPLED]]
    places = [("", ""), *((top, sub) for top, *subs in inner for sub in ["", *subs])]
    holders = [(top, sub) for top, sub in places if tree.images(inside(path, inside(top, sub)))]
    for top, sub in places:
        folder = inside(path, inside(top, sub))
        files = [one for one in tree.at(folder)[1] if one.endswith(_SUFFIXES) and one not in NAMES_FILES]
        if not files or (top, sub) in holders:
            continue
        sampled = files[:: max(1, len(files) // _IMAGES)]
        for other, sub_of in holders:
            if other == top or sub_of != sub:
                continue
            there = inside(path, inside(other, sub))
            suffix = os.path.splitext(tree.images(there)[0])[1]  # noqa: PTH122 - a name
            stems = [os.path.splitext(one)[0] for one in sampled]  # noqa: PTH122
            matching = sum(tree.has(there, stem) or tree.has(there, stem + suffix) for stem in stems)
            if matching and 2 * matching >= len(sampled):
                found = _kind_of_some(tree, folder, sampled)
                return Layout(*found, path, inside(path, other), inside(path, top))
    return None


def _kind_of_some(tree: Tree, folder: str, names: list[str]) -> tuple[str, str]:
    """The format that one of some files shows, and that file; empty ones are of images without objects."""
    files = [inside(folder, name) for name in names]
    for file in files:
        if kind := tree.kind(file):
            return kind, file
    if not files[0].lower().endswith(".txt"):
        return UNKNOWN, files[0]
    beside = (*tree.at(folder)[1], *tree.at("")[1])
    are_empty = not any(tree.source.folder.head(file, 1) for file in files)
    return YOLO if are_empty and not {*NAMES_FILES}.isdisjoint(beside) else TEXTS, files[0]


def _of_tools(tree: Tree, path: str) -> Layout | None:
    """A file of annotations of a whole folder, by its start."""
    if not any(tree.images(one) for one in tree.walk(path, 2)):
        return None
    files = [inside(path, one) for one in tree.at(path)[1] if one.lower().endswith(_OF_TOOLS)]
    return next((Layout(kind, file, path) for file in files[:SAMPLED] if (kind := tree.kind(file))), None)


def kind_of_file(source: Source) -> str | None:
    """The format of a source that is one file of annotations."""
    folder, name = source.open(source.folder_of_file), os.fspath(source.path).rpartition("/")[2]
    if not name.lower().endswith(_OF_TOOLS):
        return None
    return kind_of(name, folder.head(name, _HEAD))


def kind_of(file: str, head: bytes) -> str | None:
    """The format of a file of annotations, by its suffix and its start; None for another file."""
    text = head.decode("utf-8-sig", "replace").lstrip()
    if file.lower().endswith(".xml"):
        return "CVAT" if "<annotations" in text else VOC if "<annotation" in text else None
    lines = [line for line in text.splitlines() if not line.startswith(("imagesource:", "gsd:"))] or [""]
    if file.lower().endswith(_TABLES):
        return _kind_of_table([word.strip(' "') for word in re.split("[,;\t]", lines[0])])
    is_list = (file.lower().endswith(".jsonl") or text.startswith("[")) and '"image_id"' not in text
    if is_list and re.search('"(b?box(es)?|objects)"', text):
        return METADATA if '"file_name"' in text and '"objects"' in text else TABLE
    if file.lower().endswith((".json", ".jsonl")):
        return next((kind for kind, keys in _KEYS if all(f'"{key}"' in text for key in keys)), None)
    return _kind_of_line(lines[0].split())


def _kind_of_table(words: list[str]) -> str | None:
    """The format of a table, by the words of its first line."""
    names = {word.replace("_", "").lower() for word in words}
    if "regionshapeattributes" in names:
        return "VGG Image Annotator"
    if {"imageid", "labelname", "xmin"} <= names:
        return "Open Images"
    is_headless = len(words) == 6 and all(map(_NUMBER.fullmatch, words[1:5]))
    return TABLE if is_headless or any(names.issuperset(one.split()) for one in _BOXES) else None


def _kind_of_line(words: list[str]) -> str | None:
    """The format of a text of objects, by the words of its first line."""
    is_number = [_NUMBER.fullmatch(word) is not None for word in words]
    if len(words) >= 5 and all(is_number):
        return YOLO
    if len(words) >= 9 and all(is_number[:8]):
        return "DOTA"
    if len(words) >= 15 and all(is_number[1:]):
        return "KITTI"
    values = words[0].strip(",").split(",") if len(words) == 1 else []
    return "VisDrone" if len(values) >= 8 and all(map(_NUMBER.fullmatch, values)) else None
