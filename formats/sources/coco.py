"""The categories of a COCO file: the names of classes and of keypoints."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stoker.errors import SourceError
from stoker.urls import is_url

from ..dataset.annotations import AnnotationInfo, checked_runs, decompress_runs
from ..files import open_regular, printable_name, read_at
from ..remote.store import Store, local_copies
from .file_list import NamedFiles, find_files, resolve
from .json_stream import stream_object, unpacked
from .listing import Listing, Skip, no_images_error
from .objects import MOST_KEYPOINTS, BadObjectError, Issues, ObjectTable, checked_box, numbers
from .source import Source


class Categories:
    """The categories of a file; they may come after the annotations that refer to them."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._by_id: dict[Any, dict[str, Any]] = {}

    def add(self, value: Any) -> None:
        """Add an element of ``categories``."""
        if not isinstance(value, dict) or not is_id(value.get("id")):
            raise SourceError("a category has no id", path=self._file)
        if self._by_id.get(value["id"], value) != value:
            raise SourceError(f"two categories have the id {value['id']}", path=self._file)
        self._by_id[value["id"]] = value

    def labels(self, ids: Iterable[Any]) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
        """Labels of categories, which count from 0 in the order of the ids."""
        try:
            ordered_ids = sorted(self._by_id)
        except TypeError as error:
            raise SourceError(
                "some ids of categories are numbers and some are text", path=self._file
            ) from error
        label_of = {category: label for label, category in enumerate(ordered_ids)}
        names = (self._by_id[category].get("name") for category in ordered_ids)
        return np.array([label_of.get(category, -1) for category in ids], np.int64), tuple(
            printable_name(name if isinstance(name, str) else f"category {category}")
            for category, name in zip(ordered_ids, names, strict=True)
        )

    def ids(self) -> tuple[int | str, ...]:
        """The id of each category, by label."""
        return tuple(sorted(self._by_id))

    def keypoints(self) -> set[int]:
        """The numbers of keypoints that categories declare."""
        names = (category.get("keypoints") for category in self._by_id.values())
        return {len(some) for some in names if isinstance(some, list) and some}

    def info(self, keypoints: int) -> AnnotationInfo:
        """Names, swap and skeleton of the first category with this number of keypoints."""
        for category in self._by_id.values() if keypoints else ():
            names = category.get("keypoints")
            if isinstance(names, list) and len(names) == keypoints:
                return self._named(category, tuple(printable_name(str(name)) for name in names))
        numbers = tuple(range(keypoints))
        return AnnotationInfo(tuple(map(str, numbers)), numbers)

    def _named(self, category: dict[str, Any], names: tuple[str, ...]) -> AnnotationInfo:
        try:
            joined = tuple((int(a) - 1, int(b) - 1) for a, b in category.get("skeleton") or [])
            return AnnotationInfo(names, swap_of(names), joined)
        except (TypeError, ValueError) as error:
            raise SourceError(
                f"the skeleton of category {category['id']} is wrong: {error}", path=self._file
            ) from error


def is_id(value: Any) -> bool:
    """Whether a value may be the id of an image or a category: text, or an integer of 64 bits."""
    return isinstance(value, str) or (type(value) is int and abs(value) < 1 << 63)


def swap_of(names: tuple[str, ...]) -> tuple[int, ...]:
    """The keypoint that each becomes in a mirrored image, by name: ``left_eye`` and ``right_eye`` swap."""
    opposite = {"left": "right", "right": "left"}
    index_of = {name: i for i, name in enumerate(names)}
    swap = []
    for i, name in enumerate(names):
        side = next((side for side in opposite if side in name), None)
        swap.append(i if side is None else index_of.get(name.replace(side, opposite[side]), i))
    return tuple(swap) if sorted(swap) == list(range(len(swap))) else tuple(range(len(swap)))


_VISIBILITIES = frozenset({0, 1, 2})  # not labelled, hidden, visible


def read_keypoints(value: Any) -> list[float]:
    """Return x, y and visibility of each keypoint of an object, pixels whose edges are integers."""
    if not value:
        return []
    if not numbers(value) or len(value) % 3:
        raise BadObjectError("keypoints that are no triples of numbers", str(value)[:60])
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


def choose_keypoints(declared: Iterable[int], numbers_of_objects: Iterable[int]) -> tuple[int, str]:
    """Choose the number of keypoints that objects have, from those that categories and objects have."""
    counts, allowed = Counter(numbers_of_objects), set(declared)
    if not counts:
        return 0, ""
    best = max(allowed or counts, key=lambda number: (counts[number], number))
    others = "categories declare" if allowed else "most objects have"
    return best, f"keypoints of another number than {others}"


def is_size(value: Any) -> bool:
    """Whether a value is a whole number of pixels above 0, such as a height."""
    return type(value) in (int, float) and 0 < value < 1 << 31 and value == int(value)


def read_polygons(value: Any) -> tuple[list[list[float]], Counter[str]]:
    """Return the good polygons, x and y of each point in turn; and how many are left out, by reason."""
    polygons = value if isinstance(value, list) else [value] if value else []
    if isinstance(value, list) and value and numbers(value):
        polygons = [polygons]  # one polygon without the list around it
    problems = [_problem(part) for part in polygons]
    good = [part for part, problem in zip(polygons, problems, strict=True) if not problem]
    return good, Counter(filter(None, problems))


def _problem(polygon: Any) -> str:
    """The reason to leave out a polygon; empty for a good one."""
    if not numbers(polygon):
        return "polygon with values that are no numbers"
    if len(polygon) % 2:
        return "polygon whose last point has no y"
    return "" if len(polygon) >= 6 else "polygon of less than three points"


def read_runs(value: dict[str, Any]) -> tuple[npt.NDArray[np.uint32], tuple[int, int]]:
    """Return run lengths, and the height and width of their mask."""
    counts, size = value.get("counts"), value.get("size")
    if not numbers(size) or len(size) != 2 or not all(map(is_size, size)):
        raise BadObjectError("run lengths without a size", str(size)[:60])
    try:
        runs = decompress_runs(counts) if isinstance(counts, str) else checked_runs(counts or [])
    except ValueError as error:
        raise BadObjectError("broken run lengths", str(error)) from error
    if int(runs.sum(dtype=np.int64)) != size[0] * size[1]:
        raise BadObjectError("broken run lengths", f"they do not fill {size[1]} x {size[0]} pixels")
    return runs, (int(size[0]), int(size[1]))


# Lists of LVIS. An image shows no object of its negative categories. Of its not exhaustive categories it may
# show objects that are not annotated.
_CLASS_LISTS = ("neg_category_ids", "not_exhaustive_category_ids")


class Images:
    """The images of a file; an image gets its number when its id is first seen, anywhere in the file.

    ``root`` is the folder of the images, or its URL.
    """

    def __init__(self, file: Path, root: str) -> None:
        self._file = file
        self._root = root
        self._has_folder: dict[str, bool] = {}
        self.names: list[str] = []
        self.numbers: list[int] = []
        self.sizes: dict[int, tuple[int, int]] = {}
        self.number_of: dict[Any, int] = {}
        self.class_lists: dict[str, dict[int, list[int]]] = {}
        self.bad: list[Skip] = []

    def number(self, image_id: Any) -> int:
        """The number of the image with an id; -1 for a value that cannot be an id."""
        return self.number_of.setdefault(image_id, len(self.number_of)) if is_id(image_id) else -1

    def add(self, value: Any) -> None:
        """Add an element of ``images``."""
        known = isinstance(value, dict) and is_id(value.get("id"))
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
        self.sizes[number] = height if is_size(height) else 0, width if is_size(width) else 0
        self.numbers.append(number)
        self.names.append(name)
        for name in _CLASS_LISTS:
            ids = value.get(name)
            if isinstance(ids, list) and all(type(one) is int for one in ids):
                self.class_lists.setdefault(name, {})[number] = ids

    def columns(self, entries: Sequence[int]) -> dict[str, pa.Array]:
        """Columns of the images at these indexes in :attr:`names`: their ids, and the lists of LVIS."""
        numbers = [self.numbers[entry] for entry in entries]
        id_of = {number: image_id for image_id, number in self.number_of.items()}
        columns = {"image_id": _id_column([id_of[number] for number in numbers])}
        for name, lists in self.class_lists.items():
            columns[name] = pa.array([lists.get(number, []) for number in numbers], pa.large_list(pa.int64()))
        return columns

    def listed_twice(self, entries: Iterable[int]) -> set[int]:
        """Numbers of the images that are not among ``entries`` but name the same file as one of them.

        ``entries`` are indexes in :attr:`names`.
        """
        taken = set(entries)
        files = {os.path.normpath(self.names[at]) for at in taken}
        others = (at for at in range(len(self.names)) if at not in taken)
        return {self.numbers[at] for at in others if os.path.normpath(self.names[at]) in files}

    def _file_name(self, value: dict[str, Any]) -> str:
        """The file name of an image; empty where it has none.

        LVIS has ``coco_url`` instead, such as http://images.cocodataset.org/train2017/000000391895.jpg.
        The name is the last part of the URL. If the images lie in a folder that is named as the last folder
        of the URL, that folder is part of the name.
        """
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


def _id_column(ids: list[Any]) -> pa.Array:
    if all(type(one) is int for one in ids):
        return pa.array(ids, pa.int64())
    return pa.array([printable_name(str(one)) for one in ids], pa.large_string())


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
        return list_coco_file(file, source.options.images or folder, follow_links=source.options.follow_links)


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
