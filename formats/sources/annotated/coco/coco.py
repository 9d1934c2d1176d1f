"""COCO's JSON as a source: instances, with polygons or run lengths, and person_keypoints.

The format is that of https://cocodataset.org/#format-data. Boxes are left, top, width and height, and edges
of pixels are integers, in COCO as in Stoker. COCO's keypoints are indexes of pixels: the point is the middle
of the pixel, half a pixel further right and down (as detectron2 reads them, data/datasets/coco.py). Ids of
categories may have gaps: labels count the categories from 0, in the order of their ids.

The file is read one annotation at a time. Its images, annotations and categories may come in any order.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from stoker.errors import SourceError
from stoker.urls import is_url

from ....files import open_regular, read_at
from ....remote.store import Store, local_copies
from ...listing import Listing, Skip
from ...lists.file_list import NamedFiles, find_files, resolve
from ...lists.json_stream import stream_object, unpacked
from ...no_images import no_images_error
from ...source import Source
from ..object_issues import BadObjectError, Issues, checked_box, numbers
from ..object_table import ObjectTable
from .coco_categories import Categories, is_id
from .coco_images import Images
from .coco_shapes import choose_keypoints, read_keypoints, read_polygons, read_runs

_HEAD_BYTES = 4096
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def is_coco(source: Source) -> bool:
    """Whether a source is a ``.json`` file or a ``.json.gz``, on a disk or at a URL, that holds an object."""
    path = os.fspath(source.path)
    if not path.lower().endswith((".json", ".json.gz")):
        return False
    head = b""
    if is_url(path):
        folder, _, name = path.rpartition("/")
        head = Store(folder).read_if_there(name, most=_HEAD_BYTES) or b""
    else:
        with suppress(OSError), open_regular(path) as (descriptor, _):
            head = read_at(descriptor, 0, _HEAD_BYTES)
    return unpacked(head).removeprefix(_BYTE_ORDER_MARK).lstrip()[:1] == b"{"


def list_coco(source: Source) -> Listing:
    """List the images of a COCO JSON on a disk or at a URL; its images lie beside it by default.

    Raises: As :func:`list_coco_file`, and StorageError where a URL cannot be read.
    """
    folder = os.fspath(source.path).rpartition("/")[0] if is_url(source.path) else None
    with local_copies([source.path]) as (file,):
        return list_coco_file(file, source.images or folder, follow_links=source.follow_links)


def list_coco_file(
    path: str | os.PathLike[str], images: str | os.PathLike[str] | None = None, *, follow_links: bool = True
) -> Listing:
    """List the images of a COCO JSON with their objects; ``images`` is their folder."""
    file = Path(path)
    root = resolve(file.parent if images is None else images)
    reader = _Reader(file, root)
    members = set()
    for name, value in stream_object(file, reader.handlers.keys()):
        members.add(name)
        if name in reader.handlers:
            reader.handlers[name](value)
    names = reader.images.names
    if not names:
        raise SourceError(
            f"the JSON object names no images: it has {', '.join(sorted(members)[:10]) or 'nothing'}",
            path=file,
            hint="give an object with images, annotations and categories, or an array of path and label",
        )
    named, skipped = find_files(root, names, follow_links=follow_links)
    if not len(named.files):
        message = f"not one of {len(names):,} images is in {root}"
        raise no_images_error(message, file, skipped, "name the folder of the images: --images DIR")
    return reader.listing(named, skipped)


class _Reader:
    """Collects the contents of a COCO file, see :class:`Images` for the numbers of images."""

    def __init__(self, file: Path, root: str) -> None:
        self._categories = Categories(file)
        self.images = Images(file, root)
        self.handlers = {
            "images": self.images.add,
            "annotations": self._annotation,
            "categories": self._categories.add,
        }
        self._file = file
        self._category_numbers: dict[Any, int] = {}  # in the order in which they appear
        self._table = ObjectTable()
        self._run_sizes: dict[int, tuple[int, int]] = {}  # by object
        self._issues = Issues()
        self._annotations = 0

    def _annotation(self, value: Any) -> None:
        index = self._annotations
        self._annotations += 1
        known = isinstance(value, dict)
        number = value.get("id") if known else None
        object_id = number if type(number) is int and is_id(number) else index
        image = self.images.number(value.get("image_id") if known else None)
        try:
            if image < 0:
                raise BadObjectError("annotation without an image")
            self._object(value, image, object_id)
        except BadObjectError as error:
            self._issues.note(image, self._annotation_name(object_id), *error.args)

    def _annotation_name(self, number: int | str) -> str:
        return f"annotation {number} of {self._file.name}"

    def _note_object(self, at: int, reason: str, detail: str = "") -> None:
        """Note that the object at an index in the table is left out, or its keypoints."""
        table = self._table
        self._issues.note(table.image[at], self._annotation_name(table.id[at]), reason, detail)

    def _object(self, value: dict[str, Any], image: int, object_id: int) -> None:
        if "segments_info" in value:
            raise BadObjectError("panoptic annotation, which is not read")
        if "caption" in value and "bbox" not in value:
            raise BadObjectError("caption, which is no object")
        box, category, area = value.get("bbox"), value.get("category_id"), value.get("area", -1)
        if not numbers(box) or len(box) != 4:
            raise BadObjectError("object without a box", str(box)[:60])
        if not is_id(category):
            raise BadObjectError("object of an unknown category", str(category)[:60])
        left, top, width, height = box
        corners = checked_box(left, top, left + width, top + height)
        crowd = _is_crowd(value.get("iscrowd"))
        # Keep this call last: it stores the size of run lengths under the number of the next object.
        polygons, runs = self._segmentation(value.get("segmentation"), image, object_id)
        self._table.add(
            image,
            corners,
            self._category_numbers.setdefault(category, len(self._category_numbers)),
            object_id,
            area=area if numbers([area]) and area >= 0 else None,
            crowd=crowd,
            keypoints=self._keypoints(value.get("keypoints"), image, object_id),
            polygons=polygons,
            runs=runs,
        )

    def _segmentation(self, value: Any, image: int, object_id: int) -> tuple[list[list[float]], Any]:
        if isinstance(value, dict):
            runs, self._run_sizes[len(self._table)] = read_runs(value)
            return [], runs
        polygons, bad = read_polygons(value)
        for reason, number in sorted(bad.items()):
            self._issues.note(image, self._annotation_name(object_id), reason, f"{number}")
        return polygons, None

    def _keypoints(self, value: Any, image: int, object_id: int) -> list[float]:
        try:
            return read_keypoints(value)
        except BadObjectError as error:
            self._issues.note(image, self._annotation_name(object_id), *error.args)
            return []

    def _choose_keypoints(self) -> None:
        """Set the number of keypoints that the objects have; note the objects with others."""
        table, declared = self._table, self._categories.keypoints()
        counts = [size // 3 for size in table.keypoint_sizes]
        table.keypoints, reason = choose_keypoints(declared, filter(None, counts))
        for at, number in enumerate(counts):
            if number not in (0, table.keypoints):
                self._note_object(at, reason, f"{number}, not {table.keypoints}")

    def listing(self, named: NamedFiles, skipped: list[Skip]) -> Listing:
        """The listing of all images that were found, sorted by name."""
        images = self.images
        image_numbers = [images.numbers[entry] for entry in named.entries.tolist()]
        row_of = np.full(len(images.number_of) + 1, -1, np.int64)
        row_of[image_numbers] = np.arange(len(named.files))
        labels, classes = self._categories.labels(self._category_numbers)
        left_out = self._left_out(labels, images.listed_twice(named.entries.tolist()))
        self._choose_keypoints()
        rows = np.where(left_out, -1, row_of[np.array(self._table.image, np.int64)])
        self._table.relabel(labels)
        sizes = np.array([images.sizes[number] for number in image_numbers], np.int32).reshape(-1, 2)
        bad = self._skips(none_left=bool(left_out.all()))
        return Listing(
            **vars(named.files),
            labels=None,
            classes=classes,
            columns=images.columns(named.entries.tolist()),
            skipped=tuple(sorted([*skipped, *images.bad, *bad])),
            objects=self._table.listed(rows, sizes, self._annotation_name("{}")),
            info=self._categories.info(self._table.keypoints),
            category_ids=self._categories.ids(),
        )

    def _left_out(self, labels: np.ndarray[Any, Any], twice: set[int]) -> np.ndarray[Any, Any]:
        """Objects that cannot be used, (M,) bool; the label of an unknown category is -1."""
        table = self._table
        image = np.array(table.image, np.int64)
        unknown_image = ~np.isin(image, list(self.images.sizes))
        listed_twice = np.isin(image, list(twice))
        unknown_category = ~unknown_image & (labels[np.array(table.label, np.int64)] < 0)
        for affected, reason in (
            (unknown_image, "object of an unknown image"),
            (unknown_category, "object of an unknown category"),
            (listed_twice, "object of an image that is listed twice"),
        ):
            for at in np.flatnonzero(affected).tolist():
                self._note_object(at, reason)
        left_out: np.ndarray[Any, Any] = unknown_image | unknown_category | listed_twice
        for at, size in self._run_sizes.items():
            declared = self.images.sizes.get(table.image[at], (0, 0))
            if all(declared) and declared != size:
                self._note_object(at, "run lengths of another size than the image")
                left_out[at] = True
        return left_out

    def _skips(self, *, none_left: bool) -> list[Skip]:
        """The objects that are left out; an image without a name is listed under the name of the file."""
        names = [self._file.name] * (len(self.images.number_of) + 1)
        for name, number in zip(self.images.names, self.images.numbers, strict=True):
            names[number] = name
        skips = self._issues.skips(names)
        if skips and none_left:
            reasons = ", ".join(sorted({skip.reason for skip in skips}))
            raise SourceError(
                f"the file has no object: of {self._annotations:,} annotations, {reasons}",
                path=self._file,
                hint="give instances or person_keypoints; a panoptic PNG of classes is a mask: --masks DIR",
            )
        return skips


def _is_crowd(value: Any) -> bool:
    """The value of ``iscrowd``: 0 or 1, or the same as text."""
    try:
        return bool(int(value or 0))
    except (TypeError, ValueError, OverflowError) as error:
        raise BadObjectError("object with an iscrowd that is no number", str(value)[:60]) from error
