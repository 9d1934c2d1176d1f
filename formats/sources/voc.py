"""Pascal VOC as a source: ``Annotations/*.xml`` beside ``JPEGImages``.

Coordinates in VOC are indexes of pixels from 1, and boxes include both corners (VOC2012 development kit,
section 3.2). In Stoker edges of pixels are integers, so 1 is subtracted from left and top, and right and
bottom stay. ``difficult`` and ``truncated`` become columns of the index.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

import numpy as np

from stoker.errors import SourceError

from .file_list import find_files, has_list_suffix
from .listing import Listing, Skip
from .objects import BadObjectError, ObjectTable, checked_box
from .source import Source, SourceFolder, split_at_folder

_ANNOTATIONS, _IMAGES, _SETS = "Annotations", "JPEGImages", "ImageSets"
_SUFFIX = ".xml"
_FLAGS = ("difficult", "truncated")


def is_voc(source: Source) -> bool:
    """Whether a source is a folder of VOC, or a list of images in its ImageSets."""
    if has_list_suffix(source.path):
        return False
    root = _root(source)
    return root is not None and bool(_stems(root))


def _root(source: Source) -> SourceFolder | None:
    """The folder that holds Annotations: the source, or the one that its list belongs to."""
    root = source.folder
    parts = split_at_folder(source.path, _SETS)
    if parts and not root.exists():
        root = source.open(parts[0])
    return root if root.child(_ANNOTATIONS).exists() else None


def list_voc(source: Source) -> Listing:
    """List the images of a VOC folder, with their objects; classes in sorted order."""
    root = _root(source)
    if root is None:
        raise SourceError(
            f"the source is no Pascal VOC: there is no folder {_ANNOTATIONS}",
            path=source.path,
            hint=f"its files must be {_ANNOTATIONS}/*.xml and {_IMAGES}/*.jpg",
        )
    reader = _Reader(root, root.child(_IMAGES))
    whole = source.folder.exists()
    stems = _stems(root) if whole else _listed(source)
    contents = root.child(_ANNOTATIONS).read(f"{stem}{_SUFFIX}" for stem in stems)
    for stem, content in zip(stems, contents, strict=True):
        reader.read(stem, content)
    return reader.listing(whole=whole)


def _stems(root: SourceFolder) -> list[str]:
    names = root.child(_ANNOTATIONS).names(_SUFFIX)
    return sorted(name.removesuffix(_SUFFIX) for name in names if "/" not in name)


def _listed(source: Source) -> list[str]:
    """Names in a list of ImageSets; its second column, whether an image shows a class, is not used."""
    file = os.fspath(source.path)
    folder, _, name = file.rpartition("/")
    lines = source.open(folder or ".").lines(name)
    if lines is None:
        raise SourceError("there is no such list of images", path=file)
    return sorted({line.split()[0] for line in lines if line.strip()})


@dataclass
class _Reader:
    """Collects the annotations of a VOC folder."""

    root: SourceFolder
    folder: SourceFolder
    images: list[str] = field(default_factory=list)
    sizes: list[tuple[int, int]] = field(default_factory=list)
    classes: dict[str, int] = field(default_factory=dict)
    table: ObjectTable = field(default_factory=ObjectTable)
    skipped: list[Skip] = field(default_factory=list)

    def read(self, stem: str, content: bytes | OSError | ValueError) -> None:
        """Read the annotation of one image."""
        key = f"{_ANNOTATIONS}/{stem}{_SUFFIX}"
        try:
            if not isinstance(content, bytes):
                raise content
            tree = _parse(content)
        except OSError as error:
            self.skipped.append(Skip(key, "annotation that cannot be read", error.strerror or str(error)))
        except (ValueError, expat.ExpatError) as error:
            self.skipped.append(Skip(key, "broken annotation", str(error)))
        else:
            self._add(stem, key, tree)

    def _add(self, stem: str, key: str, tree: Element) -> None:
        name = (tree.findtext("filename") or "").strip()
        # Annotations of copied or renamed images often keep the old name.
        if not name or not self.folder.has(name):
            name = f"{stem}{PurePosixPath(name).suffix or '.jpg'}"
        number = len(self.images)
        self.images.append(f"{_IMAGES}/{name}")
        self.sizes.append((_size(tree, "height"), _size(tree, "width")))
        for index, node in enumerate(tree.iterfind("object")):
            self._try_object(number, index, node, f"object {index} of {key}")

    def _try_object(self, image: int, index: int, node: Element, location: str) -> None:
        try:
            self._object(image, index, node)
        except BadObjectError as error:
            reason, detail = error.args
            self.skipped.append(Skip(self.images[image], reason, f"{location}: {detail}"))

    def _object(self, image: int, index: int, node: Element) -> None:
        name = (node.findtext("name") or "").strip()
        if not name:
            raise BadObjectError("object of an unknown category", "it has no name")
        box = [_number(node, f"bndbox/{side}") for side in ("xmin", "ymin", "xmax", "ymax")]
        corners = checked_box(box[0] - 1, box[1] - 1, box[2], box[3])
        label = self.classes.setdefault(name, len(self.classes))
        flags = {flag: int((node.findtext(flag) or "").strip() == "1") for flag in _FLAGS}
        self.table.add(image, corners, label, index, extra=flags)

    def listing(self, whole: bool) -> Listing:
        """The listing of all annotated images; if ``whole``, images without an annotation become skips."""
        named, missing = find_files(self.root.root, self.images, follow_links=self.root.follow_links)
        if not len(named.files):
            raise SourceError(
                f"not one of the images of {len(self.images):,} annotations is there, "
                f"such as {', '.join(self.images[:3])}",
                path=self.folder.root,
                hint=f"{len(self.skipped):,} annotations cannot be read" if self.skipped else None,
            )
        if whole:
            annotated = set(self.images)
            keys = (f"{_IMAGES}/{key}" for key in self.folder.images()[0].names())
            missing += [Skip(key, "image without an annotation") for key in keys if key not in annotated]
        classes = tuple(sorted(self.classes))
        number = {name: label for label, name in enumerate(classes)}
        self.table.relabel(np.array([number[name] for name in self.classes], np.int64))
        row_of = np.full(len(self.images), -1, np.int64)
        row_of[named.entries] = np.arange(len(named.files))
        rows = row_of[np.array(self.table.image, np.int64)]
        sizes = np.array(self.sizes, np.int32)[named.entries]
        return Listing(
            **vars(named.files),
            labels=None,
            classes=classes,
            skipped=tuple(sorted([*self.skipped, *missing])),
            objects=self.table.listed(rows, sizes, "object {} of its annotation"),
        )


def _number(node: Element, path: str) -> float:
    text = node.findtext(path)
    try:
        return float(text or "")
    except ValueError as error:
        raise BadObjectError("object without a box", f"{path} is {text!r}") from error


def _size(tree: Element, side: str) -> int:
    """Height or width in the annotation; 0 where it has no such number."""
    text = (tree.findtext(f"size/{side}") or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0


def _parse(data: bytes) -> Element:
    """Read an XML file; ValueError if it declares entities."""
    builder = TreeBuilder()
    parser = expat.ParserCreate()
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.EntityDeclHandler = _refuse_entity
    try:
        parser.Parse(data, True)
    except LookupError as error:  # an encoding that Python does not have
        raise ValueError(str(error)) from error
    return builder.close()


def _refuse_entity(name: str, *_: Any) -> None:
    raise ValueError(f"it declares the entity {name!r}, as no annotation does")
