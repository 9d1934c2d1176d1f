"""Pascal VOC as a source: ``Annotations/*.xml`` beside ``JPEGImages``.

Coordinates in VOC are indexes of pixels from 1, and boxes include both corners (VOC2012 development kit,
section 3.2). In Stoker edges of pixels are integers, so 1 is subtracted from left and top, and right and
bottom stay. ``difficult`` and ``truncated`` become columns of the index.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from stoker.errors import SourceError

from .detection import ANNOTATIONS, voc_root, voc_stems
from .listing import Listing, Skip
from .objects import AnnotatedImages, BadObjectError, Box, turned_box
from .source import Source, SourceFolder

_IMAGES = "JPEGImages"
_OTHER_IMAGES = "images"  # of Label Studio
_SUFFIXES = (".jpg", ".png", ".jpeg", ".JPG", ".PNG", ".JPEG")  # for an annotation that names none
_SUFFIX = ".xml"
_FLAGS = ("difficult", "truncated")


def list_voc(source: Source) -> Listing:
    """List the images of a VOC folder, with their objects; classes in sorted order."""
    root = voc_root(source)
    if root is None:
        raise SourceError(
            f"the source is not Pascal VOC: there is no folder {ANNOTATIONS}",
            path=source.path,
            hint=f"Its files must be {ANNOTATIONS}/*.xml and {_IMAGES}/*.jpg.",
        )
    images = AnnotatedImages(ANNOTATIONS, "object {} of its annotation")
    names = [name for name in (_IMAGES, _OTHER_IMAGES) if root.child(name).exists()]
    beside = names[0] if names else _IMAGES
    folder = root.child(beside)
    whole = source.folder.exists()
    stems = voc_stems(root) if whole else _listed(source)
    contents = root.child(ANNOTATIONS).read(f"{stem}{_SUFFIX}" for stem in stems)
    for stem, content in zip(stems, contents, strict=True):
        _read(images, folder, beside, stem, content)
    hint = f"{len(images.skipped):,} annotations cannot be read." if images.skipped else None
    listing = images.listing(root.root, follow_links=root.follow_links, hint=hint)
    if not whole:
        return listing
    keys = (f"{beside}/{key}" for key in folder.images()[0].names())
    others = [Skip(key, "image without an annotation") for key in keys if key not in images.number_of]
    return replace(listing, skipped=tuple(sorted([*listing.skipped, *others])))


def _listed(source: Source) -> list[str]:
    """Names in a list of ImageSets; its second column, whether an image shows a class, is not used."""
    name = os.fspath(source.path).rpartition("/")[2]
    lines = source.open(source.folder_of_file).lines(name)
    if lines is None:
        raise SourceError("there is no such list of images", path=source.path)
    return sorted({line.split()[0] for line in lines if line.strip()})


def _read(
    images: AnnotatedImages,
    folder: SourceFolder,
    beside: str,
    stem: str,
    content: bytes | OSError | ValueError,
) -> None:
    """Read the annotation of one image."""
    key = f"{ANNOTATIONS}/{stem}{_SUFFIX}"
    try:
        if not isinstance(content, bytes):
            raise content
        tree = _parse(content)
    except OSError as error:
        images.skip(key, "annotation that cannot be read", error.strerror or str(error))
        return
    except (ValueError, expat.ExpatError) as error:
        images.skip(key, "broken annotation", str(error))
        return
    name = (tree.findtext("filename") or "").strip()
    # Annotations of copied or renamed images often keep the old name.
    if not name or not folder.has(name):
        suffixes = (PurePosixPath(name).suffix, *_SUFFIXES)
        others = [f"{stem}{suffix}" for suffix in suffixes if suffix]
        name = next(filter(folder.has, others), others[0])
    path = f"{beside}/{name}"
    if path in images.number_of:
        images.skip(path, "listed twice", "")
        return
    images.sizes[images.image(path)] = _size(tree, "height"), _size(tree, "width")
    for index, node in enumerate(tree.iterfind("object")):
        where = f"object {index} of {key}"
        try:
            label, box = _object(node)
            area = None
            if rotation := _rotation(node):
                area = (box[2] - box[0]) * (box[3] - box[1])
                box = turned_box(*box, rotation)
                images.table.turned += 1
        except BadObjectError as error:
            reason, detail = error.args
            images.skip(path, reason, f"{where}: {detail}")
        else:
            flags = {flag: int((node.findtext(flag) or "").strip() == "1") for flag in _FLAGS}
            images.add(path, box, label, index, where=where, extra=flags, area=area)


def _rotation(node: Element) -> float:
    """Degrees by which a box is turned, an attribute of CVAT's; 0 where it has none."""
    attributes = {
        one.findtext("name"): one.findtext("value") for one in node.iterfind("attributes/attribute")
    }
    text = (attributes.get("rotation") or "").strip()
    return float(text) % 360 if re.fullmatch(r"-?\d{1,4}(\.\d*)?", text) else 0.0


def _object(node: Element) -> tuple[str, Box]:
    name = (node.findtext("name") or "").strip()
    if not name:
        raise BadObjectError("object of an unknown category", "it has no name")
    left, top, right, bottom = (_number(node, f"bndbox/{side}") for side in ("xmin", "ymin", "xmax", "ymax"))
    return name, (left - 1, top - 1, right, bottom)


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
