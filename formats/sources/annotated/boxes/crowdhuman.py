"""CrowdHuman's annotations as a source: ``annotation_train.odgt``, one JSON object for each image and line.

A person has a box of the whole body (``fbox``), which may reach outside the image, one of the visible part
(``vbox``) and one of the head (``hbox``), as left, top, width and height in pixels (arXiv:1805.00123). One of
them is the box of the object. A box that evaluation ignores is a crowd: it has the tag ``mask``, or
``ignore`` in ``extra`` (of heads, in ``head_attr``).
"""

from __future__ import annotations

import json
import os
from typing import Any

from stoker.errors import ConfigError, SourceError

from ....remote.copies import local_copies
from ...listing import Listing
from ...lists.file_list import resolve
from ...source import Source
from ..object_issues import numbers
from .box_images import BoxImages

_SUFFIX = ".odgt"
_IMAGES = "Images"
_PERSON, _IGNORED = "person", "mask"
_BOXES = {"full": "fbox", "visible": "vbox", "head": "hbox"}


def is_crowdhuman(source: Source) -> bool:
    """Whether a source has the name of CrowdHuman's lists."""
    return os.fspath(source.path).lower().endswith(_SUFFIX)


def list_crowdhuman(source: Source) -> Listing:
    """List the images of a file of CrowdHuman, with the boxes of people, or of their heads.

    An image is ``ID.jpg`` in the folder of images. By default this is ``Images`` beside the file, or, without
    such a folder, the folder of the file.
    """
    kind = source.person_box or "full"
    if kind not in _BOXES:
        raise ConfigError(f"person_box must be full, visible or head, not {kind!r}")
    folder, _, name = os.fspath(source.path).rpartition("/")
    images = BoxImages(name, f"box {{}} of its line in {name}")
    with local_copies([source.path]) as (file,), file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                _read(images, number, line, kind)
    if not images.number_of:
        raise SourceError("no line of the file is an object with ID and gtboxes", path=source.path)
    there = source.open(folder or ".").child(_IMAGES)
    root = source.images or (there.root if there.exists() else folder or ".")
    return images.listing(resolve(root), follow_links=source.follow_links, classes=(_name(kind),))


def _name(kind: str) -> str:
    """The class of the boxes of a kind."""
    return "head" if kind == "head" else _PERSON


def _read(images: BoxImages, number: int, line: bytes, kind: str) -> None:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        content = None
    has_id = isinstance(content, dict) and isinstance(content.get("ID"), str) and content["ID"]
    boxes = content.get("gtboxes") if isinstance(content, dict) else None
    if not has_id or not isinstance(boxes, list):
        images.skip(images.file, "line that is no object with ID and gtboxes", f"line {number}")
        return
    path = f"{content['ID']}.jpg"
    images.image(path)
    for index, box in enumerate(boxes):
        _add(images, path, index, box, kind)


def _add(images: BoxImages, path: str, index: int, value: Any, kind: str) -> None:
    name = images.of(index)
    members = value if isinstance(value, dict) else {}
    box, facts = members.get(_BOXES[kind]), members.get("head_attr" if kind == "head" else "extra")
    if members.get("tag") not in (_PERSON, _IGNORED):
        images.skip(path, "object of an unknown category", f"{name}: {members.get('tag')!r}"[:80])
    elif not numbers(box) or len(box) != 4:
        images.skip(path, "object without a box", f"{name}: {str(box)[:60]}")
    else:
        left, top, width, height = box
        ignored = members["tag"] == _IGNORED or (isinstance(facts, dict) and facts.get("ignore") == 1)
        images.add(path, (left, top, left + width, top + height), _name(kind), index, crowd=ignored)
