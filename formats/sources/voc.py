"""Pascal VOC as a source: ``Annotations/*.xml`` beside ``JPEGImages``, or each .xml beside its image.

Coordinates in VOC are indexes of pixels from 1, and boxes include both corners (VOC2012 development kit,
section 3.2). In Stoker edges of pixels are integers, so 1 is subtracted from left and top, and right and
bottom stay. ``difficult`` and ``truncated`` become columns of the index.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from stoker.errors import SourceError
from stoker.urls import split_url

from .detection import ANNOTATIONS, voc_folders
from .listing import Listing
from .objects import BadObjectError, Document, list_documents, rotation_of, turned_box
from .source import Source

_FLAGS = ("difficult", "truncated")


def list_voc(source: Source) -> Listing:
    """List the images of a VOC folder, with their objects; classes in sorted order."""
    folders = voc_folders(source)
    if folders is None:
        raise SourceError(
            f"the source is not Pascal VOC: there is no folder {ANNOTATIONS}",
            path=source.path,
            hint=f"Its files must be {ANNOTATIONS}/*.xml and JPEGImages/*.jpg, or x.xml beside x.jpg.",
        )
    stems = None if source.folder.exists() else listed_stems(source)
    return list_documents(source, folders, ".xml", _document, stems=stems)


def listed_stems(source: Source) -> list[str]:
    """Names in a list of ImageSets; its second column, whether an image shows a class, is not used."""
    name = split_url(source.path)[1]
    lines = source.open(source.folder_of_file).lines(name)
    if lines is None:
        raise SourceError("there is no such list of images", path=source.path)
    return sorted({line.split()[0] for line in lines if line.strip()})


def _document(content: bytes) -> Document:
    try:
        tree = _parse(content)
    except expat.ExpatError as error:
        raise ValueError(str(error)) from error
    name = (tree.findtext("filename") or "").strip()
    objects = [partial(_object, node) for node in tree.iterfind("object")]
    return Document(name, (_size(tree, "height"), _size(tree, "width")), objects)


def _object(node: Element) -> tuple[str, dict[str, Any]]:
    name = (node.findtext("name") or "").strip()
    if not name:
        raise BadObjectError("object of an unknown category", "it has no name")
    left, top, right, bottom = (_number(node, f"bndbox/{side}") for side in ("xmin", "ymin", "xmax", "ymax"))
    box = left - 1, top - 1, right, bottom
    extra = {flag: int((node.findtext(flag) or "").strip() == "1") for flag in _FLAGS}
    attributes = {
        one.findtext("name"): one.findtext("value") for one in node.iterfind("attributes/attribute")
    }
    if not (rotation := rotation_of(attributes.get("rotation"))):
        return name, {"box": box, "extra": extra}
    area = (box[2] - box[0]) * (box[3] - box[1])
    around, corners = turned_box(*box, rotation)
    return name, {"box": around, "extra": extra, "area": area, "turned": True, "corners": corners}


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
