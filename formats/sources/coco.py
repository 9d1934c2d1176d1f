"""COCO's JSON as a source: instances, with polygons or run lengths, and person_keypoints; LVIS's, too.

The format is that of https://cocodataset.org/#format-data. Boxes are left, top, width and height, and edges
of pixels are integers, in COCO as in Stoker. COCO's keypoints are indexes of pixels: the point is the middle
of the pixel, half a pixel further right and down (as detectron2 reads them, data/datasets/coco.py). Ids of
categories may have gaps: labels count the categories from 0, in the order of their ids.

The file is read one annotation at a time. Its images, annotations and categories may come in any order.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stoker.errors import SourceError
from stoker.log import EventLog
from stoker.urls import is_url

from ..dataset.annotations import AnnotationInfo, checked_runs, decompress_runs
from ..files import printable_name
from ..remote.store import local_copies
from .image_files import NamedFiles, find_files, resolve
from .json_stream import stream_object
from .listing import Listing, Skip, no_images_error
from .objects import (
    MOST_KEYPOINTS,
    BadObjectError,
    ObjectTable,
    checked_box,
    numbers,
    rotation_of,
    swap_of,
    turned_box,
)
from .source import Source

_LOG = EventLog("conversion")
_VISIBILITIES = frozenset({0, 1, 2})  # not labelled, hidden, visible
# Lists of LVIS. An image shows no object of its negative categories. Of its not exhaustive categories it may
# show objects that are not annotated.
_CLASS_LISTS = ("neg_category_ids", "not_exhaustive_category_ids")

_HINTS = {
    "panoptic annotation, which is not read": "Give instances; masks names a folder of PNGs of classes.",
    "caption, which is not an object": "Give instances or person_keypoints.",
    "object without a box": "Give each annotation a bbox of left, top, width and height, or a segmentation.",
    "object of an unknown category": "Each category_id needs a category of the same id, as a number or text: "
    '{"id": 1, "name": "cat"}.',
    "broken run lengths": "Write the run lengths again, as pycocotools does, or give each annotation a bbox.",
}
"""What to do about a file whose objects all are left out, by reason."""


def list_coco(source: Source) -> Listing:
    """List the images of a COCO JSON with their objects; the images lie beside it by default."""
    root = resolve(source.options.images or source.folder_of_file)
    with local_copies([source.path]) as (file,):
        reader = _Reader(file, root, crowds_as_objects=source.options.crowds_as_objects)
        reader.read()
        names = reader.images.names
        named, skipped = find_files(
            root, names, follow_links=source.options.follow_links, outside=source.options.outside
        )
        if not len(named.files):
            message = f"not one of {len(names):,} images is in {root}"
            raise no_images_error(message, file, skipped, "Name the folder of the images with images.")
        return reader.listing(named, skipped)


class _Reader:
    """Collects the contents of a file. An image has the number that its id got when it was first seen."""

    def __init__(self, file: Path, root: str, *, crowds_as_objects: bool) -> None:
        self.images = _Images(file, root)
        self._crowds_as_objects = crowds_as_objects
        self._categories = _Categories(file)
        self._file = file
        self._category_numbers: dict[Any, int] = {}  # in the order in which they appear
        self._table = ObjectTable()
        self._run_sizes: dict[int, tuple[int, int]] = {}  # by object
        # Objects that are left out: image, reason and detail. The image's name may not be known yet
        self._left_out: list[tuple[int, str, str]] = []
        self._annotations = 0

    def read(self) -> None:
        handlers = {
            "images": self.images.add,
            "annotations": self._annotation,
            "categories": self._categories.add,
        }
        members = set()
        for name, value in stream_object(self._file, handlers.keys()):
            members.add(name)
            if name in handlers:
                handlers[name](value)
        if not self.images.names:
            raise SourceError(
                f"the JSON object names no images: it has {', '.join(sorted(members)[:10]) or 'nothing'}",
                path=self._file,
                hint="Give an object with images, annotations and categories, or an array of path and label.",
            )

    def _annotation(self, value: Any) -> None:
        index = self._annotations
        self._annotations += 1
        known = isinstance(value, dict)
        number = _id(value.get("id")) if known else None
        object_id = number if isinstance(number, int) else index
        image = self.images.number(value.get("image_id") if known else None)
        try:
            if image < 0:
                raise BadObjectError("annotation without an image")
            self._object(value, image, object_id)
        except BadObjectError as error:
            self._note(image, object_id, *error.args)

    def _object(self, value: dict[str, Any], image: int, object_id: int) -> None:
        if "segments_info" in value:
            raise BadObjectError("panoptic annotation, which is not read")
        if "caption" in value and "bbox" not in value:
            raise BadObjectError("caption, which is not an object")
        box, category, area = value.get("bbox"), _id(value.get("category_id")), value.get("area", -1)
        segmentation = value.get("segmentation")
        polygons, runs, run_size, notes = _read_outline(segmentation)
        if not box:
            box = _box_of(polygons, runs, run_size)
        if not numbers(box) or len(box) != 4:
            raise BadObjectError("object without a box", str(box)[:60])
        if category is None:
            raise BadObjectError("object of an unknown category", str(value.get("category_id"))[:60])
        left, top, width, height = box
        box, corners = checked_box(left, top, left + width, top + height), list[float]()
        crowd = _is_crowd(value.get("iscrowd")) and not self._crowds_as_objects
        attributes = value.get("attributes")
        rotation = rotation_of(attributes.get("rotation")) if isinstance(attributes, dict) else 0.0
        if rotation and not segmentation:
            area = area if numbers([area]) and area >= 0 else width * height
            box, corners = turned_box(*box, rotation)
            self._table.turned += 1
        try:
            keypoints = _read_keypoints(value.get("keypoints"))
        except BadObjectError as error:
            keypoints, notes = [], [*notes, error.args]
        for note in notes:
            self._note(image, object_id, *note)
        if run_size is not None:
            self._run_sizes[len(self._table)] = run_size
        self._table.add(
            image,
            box,
            self._category_numbers.setdefault(category, len(self._category_numbers)),
            object_id,
            area=area if numbers([area]) and area >= 0 else None,
            crowd=crowd,
            keypoints=keypoints,
            corners=corners,
            polygons=polygons,
            runs=runs,
        )

    def _note(self, image: int, object_id: int, reason: str, detail: str = "") -> None:
        """Note that an object or a part of it is left out."""
        name = f"annotation {object_id} of {self._file.name}"
        self._left_out.append((image, reason, f"{name}: {detail}" if detail else name))

    def _note_row(self, at: int, reason: str, detail: str = "") -> None:
        self._note(self._table.image[at], self._table.id[at], reason, detail)

    def listing(self, named: NamedFiles, skipped: list[Skip]) -> Listing:
        """The listing of all images that were found, sorted by name."""
        images, entries = self.images, named.entries.tolist()
        image_numbers = [images.numbers[entry] for entry in entries]
        row_of = np.full(len(images.number_of) + 1, -1, np.int64)
        row_of[image_numbers] = np.arange(len(named.files))
        labels, classes = self._categories.labels(self._category_numbers)
        unusable = self._unusable(labels, images.listed_twice(entries))
        self._choose_keypoints()
        if 2 * (crowds := sum(self._table.crowd)) > len(self._table):
            _LOG.warning(
                "crowds",
                f"{crowds:,} of {len(self._table):,} objects are crowds, whose pixels class masks ignore: "
                "CVAT marks all masks of a brush so; crowds_as_objects=True reads them as objects",
            )
        rows = np.where(unusable, -1, row_of[np.array(self._table.image, np.int64)])
        self._table.relabel(labels)
        sizes = np.array([images.sizes[number] for number in image_numbers], np.int32).reshape(-1, 2)
        bad = self._skips(none_left=bool(unusable.all()))
        return Listing(
            **vars(named.files),
            labels=None,
            classes=classes,
            columns=images.columns(entries),
            skipped=tuple(sorted([*skipped, *images.bad, *bad])),
            objects=self._table.listed(rows, sizes, f"annotation {{}} of {self._file.name}"),
            info=self._categories.info(self._table.keypoints),
            category_ids=self._categories.ids(),
        )

    def _unusable(self, labels: npt.NDArray[np.int64], twice: set[int]) -> npt.NDArray[np.bool_]:
        """(M,) bool, objects that cannot be used; the label of an unknown category is -1."""
        image = np.array(self._table.image, np.int64)
        unknown_image = ~np.isin(image, list(self.images.sizes))
        reasons = {
            "object of an unknown image": unknown_image,
            "object of an unknown category": ~unknown_image
            & (labels[np.array(self._table.label, np.int64)] < 0),
            "object of an image that is listed twice": np.isin(image, list(twice)),
            "run lengths of another size than the image": np.zeros(len(image), bool),
        }
        *_, other_size = reasons.values()
        for at, size in self._run_sizes.items():
            stated = self.images.sizes.get(self._table.image[at], (0, 0))
            other_size[at] = all(stated) and stated != size
        for reason, affected in reasons.items():
            for at in np.flatnonzero(affected).tolist():
                self._note_row(at, reason)
        unusable: npt.NDArray[np.bool_] = np.logical_or.reduce(list(reasons.values()))
        return unusable

    def _choose_keypoints(self) -> None:
        """Set the largest number of keypoints that objects have; note the objects with a wrong number."""
        declared = self._categories.keypoints()
        of_objects = [size // 3 for size in self._table.keypoint_sizes]
        counts = Counter(filter(None, of_objects))
        if not counts:
            return
        known = set(declared.values()) or {max(counts, key=lambda number: (counts[number], number))}
        chosen = self._table.keypoints = max(known & counts.keys() or known)
        reason = (
            f"keypoints of another number than {'categories declare' if declared else 'most objects have'}"
        )
        categories, wrong = list(self._category_numbers), []
        for at, number in enumerate(of_objects):
            own = declared.get(categories[self._table.label[at]], number if number in known else chosen)
            if number not in (0, own):
                wrong.append(at)
                self._note_row(at, reason, f"{number}, not {own}")
        self._table.unlabel(wrong)

    def _skips(self, *, none_left: bool) -> list[Skip]:
        """The objects that are left out; an image without a name is listed under the name of the file."""
        names = [self._file.name] * (len(self.images.number_of) + 1)
        for name, number in zip(self.images.names, self.images.numbers, strict=True):
            names[number] = name
        skips = [Skip(names[image], reason, detail) for image, reason, detail in self._left_out]
        if skips and none_left:
            counts = Counter(skip.reason for skip in skips)
            reasons = ", ".join(sorted(counts))
            hint = next((_HINTS[one] for one, _ in counts.most_common() if one in _HINTS), None)
            kinds = ["text" if isinstance(one, str) else "numbers" for one in self.images.number_of]
            of_images = {kinds[number] for number in self.images.sizes}
            if others := set(kinds) - of_images:
                kind, other = (" and ".join(sorted(one)) for one in (of_images, others))
                reasons += f" (ids of images are {kind}, and image_id of annotations are {other})"
                hint = "Write both in the same way."
            raise SourceError(
                f"the file has no object: of {self._annotations:,} annotations, {reasons}",
                path=self._file,
                hint=hint or "Give instances or person_keypoints.",
            )
        return skips


class _Images:
    """The images of a file; an image gets its number when its id is first seen, anywhere in the file."""

    def __init__(self, file: Path, root: str) -> None:
        self._file = file
        self._root = root  # the folder of the images, or its URL
        self._has_folder: dict[str, bool] = {}
        self.names: list[str] = []
        self.numbers: list[int] = []  # of the image of each name
        self.sizes: dict[int, tuple[int, int]] = {}  # by number; 0 for a side that is not stated
        self.number_of: dict[Any, int] = {}  # by id
        self._class_lists: dict[str, dict[int, list[int]]] = {}
        self.bad: list[Skip] = []

    def number(self, image_id: Any) -> int:
        """The number of the image with an id; -1 for a value that cannot be an id."""
        key = _id(image_id)
        return -1 if key is None else self.number_of.setdefault(key, len(self.number_of))

    def add(self, value: Any) -> None:
        known = isinstance(value, dict) and _id(value.get("id")) is not None
        name = self._file_name(value) if known else ""
        if not name:
            detail = f"image {len(self.names) + len(self.bad)} of {self._file.name}"
            self.bad.append(Skip(self._file.name, "image without an id or a file_name", detail))
            return
        number = self.number(value["id"])
        if number in self.sizes:
            detail = f"{value['id']} in {self._file.name}"
            self.bad.append(Skip(name, "image whose id another one has", detail))
            return
        height, width = value.get("height"), value.get("width")
        self.sizes[number] = height if _is_size(height) else 0, width if _is_size(width) else 0
        self.numbers.append(number)
        self.names.append(name)
        for class_list in _CLASS_LISTS:
            listed = value.get(class_list)
            ids: list[Any] = [_id(one) for one in listed] if isinstance(listed, list) else [None]
            if all(isinstance(one, int) for one in ids):
                self._class_lists.setdefault(class_list, {})[number] = ids

    def _file_name(self, value: dict[str, Any]) -> str:
        """The file name of an image; empty where it has none."""
        # LVIS has ``coco_url`` instead, such as http://images.cocodataset.org/train2017/000000391895.jpg. If
        # the images lie in a folder that is named as the last folder of the URL, it is part of the name.
        name, url = value.get("file_name"), value.get("coco_url")
        if isinstance(name, str) and name:
            return name
        if name is not None or not isinstance(url, str):
            return ""
        folder, _, name = urlsplit(url).path.rpartition("/")
        folder = folder.rpartition("/")[2]
        if folder not in self._has_folder:
            if is_url(self._root):
                inside = not self._root.endswith(f"/{folder}")
            else:
                inside = os.path.isdir(f"{self._root}/{folder}")  # noqa: PTH112 - the root is text
            self._has_folder[folder] = bool(folder) and inside
        return f"{folder}/{name}" if self._has_folder[folder] else name

    def columns(self, entries: Sequence[int]) -> dict[str, pa.Array]:
        """Columns of the images at these indexes in :attr:`names`: their ids, and the lists of LVIS."""
        numbers = [self.numbers[entry] for entry in entries]
        id_of = list(self.number_of)  # numbers count from 0 in the order of the ids
        ids = [id_of[number] for number in numbers]
        if all(type(one) is int for one in ids):
            columns = {"image_id": pa.array(ids, pa.int64())}
        else:
            columns = {"image_id": pa.array([printable_name(str(one)) for one in ids], pa.large_string())}
        for name, lists in self._class_lists.items():
            columns[name] = pa.array([lists.get(number, []) for number in numbers], pa.large_list(pa.int64()))
        return columns

    def listed_twice(self, entries: Sequence[int]) -> set[int]:
        """Numbers of the images that are not among ``entries`` but name the same file as one of them."""
        taken = set(entries)
        files = {os.path.normpath(self.names[at]) for at in taken}
        others = (at for at in range(len(self.names)) if at not in taken)
        return {self.numbers[at] for at in others if os.path.normpath(self.names[at]) in files}


class _Categories:
    """The categories of a file; they may come after the annotations that refer to them."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._by_id: dict[Any, dict[str, Any]] = {}

    def add(self, value: Any) -> None:
        key = _id(value.get("id")) if isinstance(value, dict) else None
        if key is None:
            raise SourceError("a category has no id", path=self._file)
        if self._by_id.setdefault(key, value) != value:
            raise SourceError(f"two categories have the id {key}", path=self._file)

    def ids(self) -> tuple[int | str, ...]:
        """The id of each category, by label: labels count from 0 in the order of the ids."""
        try:
            return tuple(sorted(self._by_id))
        except TypeError as error:
            message = "some ids of categories are numbers and some are text"
            raise SourceError(message, path=self._file) from error

    def labels(self, ids: Iterable[Any]) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
        """Labels of some ids, -1 for unknown ones; and the names of all classes."""
        label_of = {category: label for label, category in enumerate(self.ids())}
        names = ((key, self._by_id[key].get("name")) for key in label_of)
        classes = (f"{name}" if type(name) in (str, int, float) else f"category {key}" for key, name in names)
        labels = np.array([label_of.get(category, -1) for category in ids], np.int64)
        return labels, tuple(map(printable_name, classes))

    def keypoints(self) -> dict[Any, int]:
        """The number of keypoints that each category declares, by its id."""
        listed = {key: category.get("keypoints") for key, category in self._by_id.items()}
        return {key: len(some) for key, some in listed.items() if isinstance(some, list) and some}

    def info(self, keypoints: int) -> AnnotationInfo:
        """Names and skeleton of the first category with this number of keypoints; the swap of all."""
        declaring = {
            key: tuple(printable_name(str(name)) for name in self._by_id[key]["keypoints"])
            for key, number in self.keypoints().items()
            if number <= keypoints
        }
        first = next((key for key, names in declaring.items() if len(names) == keypoints), None)
        if first is None:
            names = tuple(map(str, range(keypoints)))
            return AnnotationInfo(names, swap_of(names))
        names = declaring[first]
        # Keypoints that a category lacks stay where they are. Categories that disagree leave no swap.
        swaps = {swap and (*swap, *range(len(swap), keypoints)) for swap in map(swap_of, declaring.values())}
        info = AnnotationInfo(names, swaps.pop() if len(swaps) == 1 else ())
        if len(set(declaring.values())) > 1:
            message = (
                "categories declare different keypoints: names and skeleton are those of category "
                f"{first}, and where a category has fewer, the rest are not labelled"
            )
            _LOG.warning("several skeletons", message)
        try:
            joined = tuple((int(a) - 1, int(b) - 1) for a, b in self._by_id[first].get("skeleton") or [])
            return replace(info, skeleton=joined)
        except (TypeError, ValueError, OverflowError) as error:
            message = f"the skeleton of category {first} is left out, as it counts from 1: {error}"
            _LOG.warning("skeleton", message)
            return info


def _id(value: Any) -> int | str | None:
    """The id of an image or a category: text, or an integer of 64 bits, also as 1.0; None of other values."""
    if type(value) is float and value.is_integer():  # as pandas writes a column that lacks some values
        value = int(value)
    return value if isinstance(value, str) or (type(value) is int and abs(value) < 1 << 63) else None


def _is_size(value: Any) -> bool:
    """Whether a value is a whole number of pixels above 0, such as a height."""
    return type(value) in (int, float) and 0 < value < 1 << 31 and value == int(value)


def _is_crowd(value: Any) -> bool:
    """The value of ``iscrowd``: 0 or 1, or the same as text."""
    try:
        return bool(int(value or 0))
    except (TypeError, ValueError, OverflowError) as error:
        raise BadObjectError("object with an iscrowd that is not a number", str(value)[:60]) from error


def _read_keypoints(value: Any) -> list[float]:
    """x, y and visibility of each keypoint of an object, in pixels whose edges are integers."""
    if not value:
        return []
    if not numbers(value) or len(value) % 3:
        raise BadObjectError("keypoints that are not triples of numbers", str(value)[:60])
    if len(value) > 3 * MOST_KEYPOINTS:
        raise BadObjectError(f"more than {MOST_KEYPOINTS} keypoints", str(len(value) // 3))
    if wrong := set(value[2::3]) - _VISIBILITIES:
        raise BadObjectError("keypoint whose visibility is not 0, 1 or 2", f"{min(wrong):g}")
    points = list(value)
    for at in range(0, len(points), 3):
        shift = 0.5 if points[at + 2] > 0 else 0.0
        points[at] += shift
        points[at + 1] += shift
    return points


def _read_polygons(value: Any) -> tuple[list[list[float]], Counter[str]]:
    """The good polygons, x and y of each point in turn; and how many are left out, by reason."""
    polygons = value if isinstance(value, list) else [value] if value else []
    if isinstance(value, list) and value and numbers(value):
        polygons = [polygons]  # one polygon without the list around it
    good: list[list[float]] = []
    bad: Counter[str] = Counter()
    for polygon in polygons:
        if polygon == []:  # [[]] is what many programs write for a box alone
            continue
        if not numbers(polygon):
            bad["polygon with values that are not numbers"] += 1
        elif len(polygon) % 2:
            bad["polygon whose last point has no y"] += 1
        elif len(polygon) < 6:
            bad["polygon of less than three points"] += 1
        else:
            good.append(polygon)
    return good, bad


_Outline = tuple[
    list[list[float]], npt.NDArray[np.uint32] | None, tuple[int, int] | None, list[tuple[str, ...]]
]


def _read_outline(value: Any) -> _Outline:
    """The polygons, or the run lengths and their size; and reason and detail of what is left out."""
    if isinstance(value, dict) and value:
        try:
            return [], *_read_runs(value), []
        except BadObjectError as error:
            return [], None, None, [error.args]
    polygons, bad = _read_polygons(value)
    return polygons, None, None, [(reason, f"{number}") for reason, number in sorted(bad.items())]


def _box_of(
    polygons: list[list[float]], runs: npt.NDArray[np.uint32] | None, size: tuple[int, int] | None
) -> list[float] | None:
    """Left, top, width and height of an outline; None where there is none."""
    if polygons:
        xs, ys = ([value for one in polygons for value in one[at::2]] for at in (0, 1))
        return [min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys)]
    if runs is None or size is None or not runs[1::2].any():
        return None
    ends = np.cumsum(runs, dtype=np.int64)[1::2]
    first, last = (ends - runs[1::2])[runs[1::2] > 0], ends[runs[1::2] > 0] - 1
    (left, right), height = (int(first[0]) // size[0], int(last[-1]) // size[0]), size[0]
    top, bottom = int((first % height).min()), int((last % height).max())
    if (first // height != last // height).any():  # a run from the foot of a column to the head of the next
        top, bottom = 0, height - 1
    return [left, top, right - left + 1, bottom - top + 1]


def _read_runs(value: dict[str, Any]) -> tuple[npt.NDArray[np.uint32], tuple[int, int]]:
    """Run lengths, and the height and width of their mask."""
    counts, size = value.get("counts"), value.get("size")
    if not numbers(size) or len(size) != 2 or not all(map(_is_size, size)):
        raise BadObjectError("run lengths without a size", str(size)[:60])
    try:
        runs = decompress_runs(counts) if isinstance(counts, str) else checked_runs(counts or [])
    except ValueError as error:
        raise BadObjectError("broken run lengths", str(error)) from error
    if int(runs.sum(dtype=np.int64)) != size[0] * size[1]:
        raise BadObjectError("broken run lengths", f"they do not fill {size[1]} x {size[0]} pixels")
    return runs, (int(size[0]), int(size[1]))
