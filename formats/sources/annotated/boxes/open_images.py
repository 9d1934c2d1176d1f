"""Open Images as a source: a CSV of boxes, such as ``train-annotations-bbox.csv``, or of segmentations.

A row has an image's id, a class such as ``/m/011k07``, a box in shares of the image, and flags of the object
(https://storage.googleapis.com/openimages/web/factsfigures_v7.html). The names of the classes are in a CSV
``*class-descriptions*.csv`` beside it. A box of a group is a crowd. A row of segmentations, as in
``train-annotations-object-segmentation.csv``, names the file of the object's mask.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from stoker.errors import ConfigError, SourceError
from stoker.urls import is_url

from ....remote.store import local_copies
from ...listing import Listing
from ...lists.file_list import resolve
from ...source import Source
from .box_images import BoxImages
from .open_images_masks import NamedObject, add_with_masks

_SIDES = ("XMin", "YMin", "XMax", "YMax")
_IMAGE, _LABEL, _MASK = "ImageID", "LabelName", "MaskPath"
_COLUMNS = {_IMAGE, _LABEL, *_SIDES}
_MASK_COLUMNS = {_IMAGE, _LABEL, _MASK, *(f"Box{side}" for side in _SIDES)}
_GROUP = "IsGroupOf"
_FLAGS = {
    "occluded": "IsOccluded",
    "truncated": "IsTruncated",
    "depiction": "IsDepiction",
    "inside": "IsInside",
}
_DESCRIPTIONS = "*class-descriptions*.csv"
_LONGEST_HEADER = 4096


def is_open_images(source: Source) -> bool:
    """Whether a source is a CSV with the columns of Open Images' objects; at a URL, by its name."""
    path = os.fspath(source.path)
    if not path.lower().endswith(".csv"):
        return False
    if is_url(path):
        return path.endswith(("annotations-bbox.csv", "annotations-object-segmentation.csv"))
    try:
        with Path(path).open(encoding="utf-8-sig", errors="replace") as file:
            header = set(file.readline(_LONGEST_HEADER).strip().split(","))
            return header >= _COLUMNS or header >= _MASK_COLUMNS
    except OSError:
        return False


def list_open_images(source: Source) -> Listing:
    """List the images of a CSV of Open Images that are in the folder of images, with their objects.

    The masks of a CSV of segmentations are in the folder ``instances``. An image is ``ID.jpg`` in the folder
    of images, by default the folder of the CSV. Classes are in sorted order of their names.
    """
    folder, _, name = os.fspath(source.path).rpartition("/")
    images = BoxImages(name, f"line {{}} of {name}")
    names = _descriptions(source, folder or ".")
    root = resolve(source.images or folder or ".")
    with local_copies([source.path]) as (file,), file.open(encoding="utf-8-sig", newline="") as text:
        try:
            objects = _objects(images, text, file, names, has_masks=source.instances is not None)
            if source.instances is None:
                for one in objects:
                    one.add_to(images)
            else:
                masks = source.open(source.instances)
                add_with_masks(images, objects, root, masks, follow_links=source.follow_links)
        except (csv.Error, UnicodeDecodeError) as error:
            raise SourceError(f"the CSV cannot be read: {error}", path=source.path) from error
    return images.listing(root, follow_links=source.follow_links, relative=True)


def _objects(
    images: BoxImages, text: Iterable[str], file: Path, names: Mapping[str, str], *, has_masks: bool
) -> Iterator[NamedObject]:
    """Yield the objects of a CSV; other lines become skips of ``images``."""
    reader = csv.reader(text)
    header = {name: at for at, name in enumerate(next(reader, []))}
    _check_header(header.keys(), file, has_masks=has_masks)
    image_at, label_at, group_at = header[_IMAGE], header[_LABEL], header.get(_GROUP)
    sides = [header[f"Box{side}" if has_masks else side] for side in _SIDES]
    flags = {flag: header[column] for flag, column in _FLAGS.items() if column in header}
    for row in reader:
        line = reader.line_num
        if len(row) < len(header):
            images.skip(images.file, "line that is no object", images.of(line))
            continue
        image, label = row[image_at].strip(), row[label_at].strip()
        if not image or not label:
            reason = "object of an unknown category" if image else "object of an unknown image"
            images.skip(f"{image}.jpg" if image else images.file, reason, images.of(line))
            continue
        left, top, right, bottom = (_number(row[at]) for at in sides)
        yield NamedObject(
            f"{image}.jpg",
            (left, top, right, bottom),
            names.get(label, label),
            line,
            crowd=group_at is not None and row[group_at] == "1",
            extra={flag: int(row[at] == "1") for flag, at in flags.items()},
            mask=row[header[_MASK]].strip() if has_masks else "",
        )


def _check_header(header: Collection[str], file: Path, *, has_masks: bool) -> None:
    """Raise an error if the CSV lacks a column, or has masks that are not asked for."""
    missing = (_MASK_COLUMNS if has_masks else _COLUMNS).difference(header)
    if has_masks and _MASK in missing:
        raise ConfigError(
            "the CSV names no masks of objects",
            path=file,
            hint="leave --instances (instances=) out, or convert ...-annotations-object-segmentation.csv",
        )
    if not has_masks and not _MASK_COLUMNS.difference(header):
        raise ConfigError(
            "the CSV names masks of objects, and the folder of the masks is not given",
            path=file,
            hint="--instances DIR (instances=)",
        )
    if missing:
        raise SourceError(
            f"the CSV has no column {', '.join(sorted(missing))}",
            path=file,
            hint=f"boxes of Open Images have the columns {', '.join(sorted(_COLUMNS))}",
        )


def _number(text: str) -> float:
    """The number in a cell; NaN for other texts, which makes the box invalid."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _descriptions(source: Source, folder: str) -> dict[str, str]:
    """Names of the classes by their ids, from the CSV beside the boxes; empty without one."""
    if is_url(folder):
        there = [name for name in source.open(folder).names(".csv") if "class-descriptions" in name]
        lines = source.open(folder).lines(there[0]) if there else None
    else:
        found = sorted(Path(folder).glob(_DESCRIPTIONS))
        lines = source.open(folder).lines(found[0].name) if found else None
    rows = csv.reader(lines or [])
    return {row[0]: row[1] for row in rows if len(row) > 1 and row[0] != "LabelName"}
