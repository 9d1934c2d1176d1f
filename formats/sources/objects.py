"""Objects of a source while it is listed: their checks, and a table that becomes columns of an index."""

from __future__ import annotations

import math
import posixpath
import re
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stoker.errors import ConfigError, SourceError
from stoker.log import EventLog

from ..dataset.annotations import OBJECT_COLUMNS, AnnotationInfo
from ..dataset.columns import ListColumn
from .image_files import find_files
from .listing import ListedObjects, Listing, Skip
from .source import Source, SourceFolder

_LOG = EventLog("conversion")
MOST_KEYPOINTS = 500
"""Keypoints of an object; whole bodies have 133, meshes of faces 478. Every object takes memory for all of
them, so a small file with more could take gigabytes."""
_NAMED = 20  # keypoints in a message
_FARTHEST = 1e18  # pixels, or shares of an image; the square, an area, still is a float32

Box = tuple[float, float, float, float]  # left, top, right, bottom


class BadObjectError(Exception):
    """The reason to leave an object out; ``args`` are the reason and the detail of a ``Skip``."""


def numbers(values: Any) -> TypeGuard[list[float]]:
    """Whether a value is a list of finite numbers in the range of coordinates."""
    try:
        return (
            isinstance(values, list)
            and math.isfinite(sum(values))
            and bool not in map(type, values)
            and -_FARTHEST < min(values, default=0) <= max(values, default=0) < _FARTHEST
        )
    except (TypeError, OverflowError):
        return False


def check_shares(values: Sequence[float], remark: str = "", *, most: float = 1.01) -> None:
    """Raise an error for coordinates that are not shares of an image's width and height, such as pixels."""
    # Up to 0.01 is rounding, as in Ultralytics 8.3 (data/utils.py, verify_image_label).
    wrong = [value for value in values if not -0.01 <= value <= most]
    if wrong:
        detail = f"{wrong[0]:g} is not between 0 and 1{remark}"
        raise BadObjectError("coordinates that are not shares of the image", detail)


def checked_box(left: float, top: float, right: float, bottom: float) -> Box:
    """The box, if its coordinates are in range and it has an area."""
    box = (left, top, right, bottom)
    text = ", ".join(f"{value:g}" for value in box)
    if not all(abs(value) < _FARTHEST for value in box):
        raise BadObjectError("object without a box", text)
    if not (right > left and bottom > top):
        raise BadObjectError("object without an area", f"box {text}")
    return box


def turned_box(
    left: float, top: float, right: float, bottom: float, degrees: float
) -> tuple[Box, list[float]]:
    """The upright box around a box that CVAT's ``rotation`` turns about its centre, and its corners."""
    checked_box(left, top, right, bottom)
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    x, y, half, high = (left + right) / 2, (top + bottom) / 2, (right - left) / 2, (bottom - top) / 2
    corners: list[float] = []
    for a, b in ((-half, -high), (half, -high), (half, high), (-half, high)):
        corners += (x + a * cos - b * sin, y + a * sin + b * cos)
    return box_around(corners), corners


def rotation_of(value: Any) -> float:
    """Degrees in CVAT's attribute ``rotation``, a number or text; 0 of other values."""
    text = str(value).strip()
    return float(text) % 360 if re.fullmatch(r"-?\d{1,4}(\.\d*)?", text) else 0.0


def box_around(points: Sequence[float]) -> Box:
    """The upright box around points, x and y in turn."""
    xs, ys = points[0::2], points[1::2]
    return checked_box(min(xs), min(ys), max(xs), max(ys))


def area_of(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Area of a polygon, by the shoelace formula."""
    return abs(sum(x * (ys[i - 1] - ys[(i + 1) % len(ys)]) for i, x in enumerate(xs))) / 2


class ObjectTable:
    """Objects in the order in which they were added; they take no more memory than in an index."""

    def __init__(self, keypoints: int = 0) -> None:
        self.keypoints = keypoints  # K, of every object; it may be set after all objects were added
        self.image = array("q")  # Number of the image of each object
        self.label = array("q")
        self.box = array("f")
        self.area = array("f")
        self.crowd = array("B")
        self.id = array("q")
        self.keypoint_values = array("f")  # x, y and visibility of all keypoints of all objects
        self.keypoint_sizes = array("i")  # Their number of each object; the rest of 3K is not labelled
        self.polygon_values = array("f")  # x and y of all vertices of all polygons of all objects
        self.polygon_sizes = array("i")  # Vertices of each polygon
        self.polygon_counts = array("i")  # Polygons of each object
        # Corners of all objects, x and y; NaN where an object has none. Empty where no object has any
        self.corner_values = array("f")
        self.run_values = array("I")  # Run lengths of all objects
        self.run_counts = array("i")  # Run lengths of each object
        self.extra: dict[str, array[int]] = {}  # Further columns, by name
        self.turned = 0  # Number of boxes that are turned in the source

    def __len__(self) -> int:
        return len(self.image)

    def add(
        self,
        image: int,
        box: Sequence[float],
        label: int,
        id: int,  # noqa: A002 - COCO's word for it
        *,
        area: float | None = None,
        crowd: bool = False,
        keypoints: Sequence[float] = (),
        corners: Sequence[float] = (),
        polygons: Sequence[Sequence[float]] = (),
        runs: npt.NDArray[np.uint32] | None = None,
        extra: Mapping[str, int] | None = None,
        turned: bool = False,
    ) -> None:
        """Add an object; without an area it gets minus that of its box, see ``fit_objects``."""
        self.turned += turned
        self.image.append(image)
        self.box.extend(box)
        self.label.append(label)
        self.id.append(id)
        self.area.append((box[0] - box[2]) * (box[3] - box[1]) if area is None else area)
        self.crowd.append(crowd)
        self.keypoint_values.extend(keypoints)
        self.keypoint_sizes.append(len(keypoints))
        if corners or self.corner_values:
            missing = 8 * len(self) - len(self.corner_values)
            self.corner_values.extend([math.nan] * (missing - len(corners)))
            self.corner_values.extend(corners)
        for polygon in polygons:
            self.polygon_values.extend(polygon)
            self.polygon_sizes.append(len(polygon) // 2)
        self.polygon_counts.append(len(polygons))
        self.run_counts.append(0 if runs is None else len(runs))
        if runs is not None:
            self.run_values.frombytes(runs.tobytes())
        for name, value in (extra or {}).items():
            self.extra.setdefault(name, array("B")).append(value)

    def unlabel(self, which: Sequence[int]) -> None:
        """Take the keypoints of some objects for not labelled."""
        ends = np.cumsum(_view(self.keypoint_sizes))
        for at, end in zip(which, ends[list(which)].tolist(), strict=True):
            self.keypoint_values[end - self.keypoint_sizes[at] : end] = array(
                "f", bytes(4 * self.keypoint_sizes[at])
            )

    def relabel(self, label_of: npt.NDArray[np.int64]) -> None:
        """Replace the label of each object by the entry of ``label_of``, (L,) int64, at that label."""
        self.label = array("q", label_of[_view(self.label)].tobytes())

    def listed(
        self, rows: npt.NDArray[np.int64], sizes: npt.NDArray[np.int32], name: str, *, relative: bool = False
    ) -> ListedObjects:
        """The objects of N samples; ``rows``, (M,), has the row of each, -1 for none; ``sizes`` is (N, 2)."""
        if self.polygon_sizes or self.run_values:
            bare = (_view(self.polygon_counts) == 0) & (_view(self.run_counts) == 0)
            if count := int(np.count_nonzero(bare & (rows >= 0))):
                _LOG.warning(
                    "objects without an outline",
                    f"{count:,} of {len(self):,} objects have no outline: their masks are empty, and "
                    "class masks ignore their boxes; select(objects='has_mask') leaves them out",
                )
        if self.turned:
            _LOG.warning(
                "turned boxes",
                f"{self.turned:,} boxes are turned in the source, and boxes are the upright ones around them",
            )
        heights, widths = sizes.T.copy()
        return ListedObjects(self.columns(rows, len(sizes)), relative, heights, widths, name)

    def columns(self, rows: npt.NDArray[np.int64], samples: int) -> dict[str, pa.Array]:
        """Columns of an index, see :data:`OBJECT_COLUMNS`; those that would be empty are left out."""
        order = np.argsort(rows, kind="stable")
        order = order[np.searchsorted(rows[order], 0) :]
        counts = np.bincount(rows[order], minlength=samples)
        single: dict[str, array[Any]] = {
            "object_labels": self.label,
            "object_crowd": self.crowd,
            "object_area": self.area,
            "object_id": self.id,
            **{f"object_{name}": values for name, values in self.extra.items()},
        }
        columns = {
            name: ListColumn.of_counts(counts, _view(values)[order]) for name, values in single.items()
        }
        boxes = _view(self.box).reshape(-1, 4)[order].reshape(-1)
        columns["object_boxes"] = ListColumn.of_counts(4 * counts, boxes)
        if self.keypoints:
            sizes = _view(self.keypoint_sizes)
            sizes = np.where(sizes > 3 * self.keypoints, 0, sizes)
            table = np.zeros((len(self), 3 * self.keypoints), np.float32)
            given = np.repeat(sizes > 0, _view(self.keypoint_sizes))
            table[np.arange(3 * self.keypoints) < sizes[:, None]] = _view(self.keypoint_values)[given]
            points = table[order].reshape(-1)
            columns["object_keypoints"] = ListColumn.of_counts(3 * self.keypoints * counts, points)
        if self.corner_values:
            corners = self._corners()
            if not np.isnan(corners).any():
                columns["object_corners"] = ListColumn.of_counts(8 * counts, corners[order].reshape(-1))
        if self.polygon_sizes:
            columns |= self._polygons(order, counts)
        if self.run_values:
            of_objects = ListColumn.of_counts(_view(self.run_counts), _view(self.run_values)).take(order)
            columns["object_runs"] = of_objects.grouped(counts)
            columns["object_run_counts"] = ListColumn.of_counts(counts, of_objects.counts)
        types = {name: OBJECT_COLUMNS.get(name, pa.large_list(pa.uint8())) for name in columns}
        return {name: columns[name].to_arrow().cast(arrow_type) for name, arrow_type in sorted(types.items())}

    def _corners(self) -> npt.NDArray[np.float32]:
        """(M, 8) corners of all objects, NaN for none; where boxes are turned, the others have their own."""
        corners: npt.NDArray[np.float32] = _view(self.corner_values).reshape(-1, 8).copy()
        bare = (
            (self.turned > 0)
            & (_view(self.polygon_counts) == 0)
            & (_view(self.run_counts) == 0)
            & np.isnan(corners[:, 0])
        )
        corners[bare] = _view(self.box).reshape(-1, 4)[bare][:, [0, 1, 2, 1, 2, 3, 0, 3]]
        return corners

    def _polygons(self, order: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> dict[str, ListColumn]:
        of_objects = ListColumn.of_counts(_view(self.polygon_counts), _view(self.polygon_sizes))
        sizes = of_objects.take(order)
        vertices = ListColumn.of_counts(2 * _view(self.polygon_sizes), _view(self.polygon_values))
        points = vertices.grouped(_view(self.polygon_counts)).take(order)
        number = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        owner = ListColumn(sizes.starts, np.repeat(number, sizes.counts))
        return {
            "object_polygons": points.grouped(counts),
            "object_polygon_sizes": sizes.grouped(counts),
            "object_polygon_owner": owner.grouped(counts),
        }


def _view(values: array[Any]) -> npt.NDArray[Any]:
    return np.frombuffer(values, values.typecode) if values else np.zeros(0, values.typecode)


class Document(NamedTuple):
    """A file with the annotations of one image."""

    named: str  # The name that it gives to its image
    size: tuple[int, int]  # Height and width that it states, or 0
    # For each object, the class and the arguments of ObjectTable.add; BadObjectError for one to leave out
    objects: Sequence[Callable[[], tuple[str, dict[str, Any]]]]


@dataclass
class AnnotatedImages:
    """The images and objects that a source names one after the other, collected for its listing."""

    file: str  # Name of what holds the annotations, for messages
    name: str  # Name of an object in messages, where ``{}`` stands for its id
    relative: bool = False  # Whether boxes are shares of an image's width and height
    number_of: dict[str, int] = field(default_factory=dict)  # Number of each image, by its path
    sizes: dict[int, tuple[int, int]] = field(default_factory=dict)  # Stated height and width, by number
    label_of: dict[str, int] = field(default_factory=dict)  # Number of each class, by name
    table: ObjectTable = field(default_factory=ObjectTable)
    skipped: list[Skip] = field(default_factory=list)

    def image(self, path: str) -> int:
        """The number of the image with this path in the folder of the images."""
        return self.number_of.setdefault(path, len(self.number_of))

    def skip(self, path: str, reason: str, detail: str) -> None:
        """Note an object or a line that is left out."""
        self.skipped.append(Skip(path, reason, detail))

    def add(
        self,
        path: str,
        box: Box,
        label: str,
        id: int,  # noqa: A002 - COCO's word for it
        *,
        where: str | None = None,
        **columns: Any,
    ) -> None:
        """Add an object; one whose box cannot be used is a skip. ``columns`` are as in ObjectTable.add."""
        image = self.image(path)
        try:
            corners = checked_box(*box)
            if self.relative:
                check_shares(corners)
        except BadObjectError as error:
            reason, detail = error.args
            self.skip(path, reason, f"{where or self.name.replace('{}', str(id), 1)}: {detail}")
            return
        number = self.label_of.setdefault(label, len(self.label_of))
        self.table.add(image, corners, number, id, **columns)

    def add_document(self, path: str, key: str, document: Document) -> None:
        """Add an image and the objects of its file of annotations, ``key``."""
        if path in self.number_of:
            self.skip(path, "listed twice", "")
            return
        self.sizes[self.image(path)] = document.size
        for index, read_object in enumerate(document.objects):
            where = f"object {index} of {key}"
            try:
                label, arguments = read_object()
            except BadObjectError as error:
                reason, detail = error.args
                self.skip(path, reason, f"{where}: {detail}")
            else:
                self.add(path, label=label, id=index, where=where, **arguments)

    def listing(self, root: str, *, follow_links: bool, hint: str | None = None) -> Listing:
        """The listing of the images that exist in the folder or URL ``root``; classes are sorted."""
        # ``hint`` is for a source without images.
        paths = list(self.number_of)
        named, missing = find_files(root, paths, follow_links=follow_links)
        if not len(named.files):
            shown = f", such as {', '.join(paths[:3])}" if paths else ""
            message = f"not one of the {len(paths):,} images that {self.file} names is there{shown}"
            raise SourceError(message, path=root, hint=hint)
        names = tuple(sorted(self.label_of))
        number_of = {name: number for number, name in enumerate(names)}
        self.table.relabel(np.array([number_of[name] for name in self.label_of], np.int64))
        row_of = np.full(len(paths), -1, np.int64)
        row_of[named.entries] = np.arange(len(named.files))
        sizes = np.array([self.sizes.get(number, (0, 0)) for number in named.entries.tolist()], np.int32)
        rows = row_of[np.array(self.table.image, np.int64)]
        return Listing(
            **vars(named.files),
            labels=None,
            classes=names,
            skipped=tuple(sorted([*self.skipped, *missing])),
            objects=self.table.listed(rows, sizes, self.name, relative=self.relative),
        )


def list_documents(
    source: Source,
    folders: tuple[SourceFolder, str, str],
    suffix: str,
    read: Callable[[bytes], Document | None],
    *,
    stems: Iterable[str] | None = None,
) -> Listing:
    """List images that have a file of annotations each, of these ``stems`` or all; classes are sorted."""
    # ``folders`` are a folder, and the names in it of the folders of the annotations and of the images.
    # ``read`` returns None for another file.
    root, at, beside = folders
    where = root.child(at) if at else root
    if source.options.images is not None:
        root, beside = source.open(source.options.images), ""
    images = AnnotatedImages(at or f"{suffix} files", "object {} of its annotation")
    names = [f"{stem}{suffix}" for stem in stems or ()]
    if stems is None:
        names = [*where.names(suffix), *where.names(suffix.upper())]
    for name, content in zip(names, where.read(names), strict=True):
        key = posixpath.join(at, name)
        try:
            if not isinstance(content, bytes):
                raise content
            document = read(content)
        except OSError as error:
            images.skip(key, "annotation that cannot be read", error.strerror or str(error))
        except (ValueError, RecursionError) as error:
            images.skip(key, "broken annotation", str(error))
        else:
            if document is None:
                images.skip(key, "not an image", f"{suffix} of another format")
                continue
            path = root.image_of(beside, name[: -len(suffix)], document.named)
            images.add_document(path, key, document)
    hint = f"{len(images.skipped):,} annotations cannot be read." if images.skipped else None
    listing = images.listing(root.root, follow_links=root.follow_links, hint=hint)
    if stems is not None:
        return listing
    found = (root.child(beside) if beside else root).images()[0].names()
    keys = (posixpath.join(beside, key) for key in found)
    others = [Skip(key, "image without an annotation") for key in keys if key not in images.number_of]
    return replace(listing, skipped=tuple(sorted([*listing.skipped, *others])))


_OTHER = {"left": "right", "right": "left", "l": "r", "r": "l"}
_SIDES = [re.compile(word) for word in ("left|right|(?<![a-z])[lr](?![a-z])", "^[lr]", "[lr]$")]
"""Left and right in names of keypoints, in lower case: ``left_eye``, ``l_eye_left`` (a corner), ``leye``."""


def swap_of(names: tuple[str, ...]) -> tuple[int, ...]:
    """The keypoint that each becomes in a mirrored image, by name: ``left_eye`` and ``right_eye`` swap."""
    # Empty where there are several keypoints and no pair among them: the names do not say it.
    lower = [name.lower() for name in names]
    index_of = {name: i for i, name in enumerate(lower)}
    swap = list(range(len(names)))
    for i, name in enumerate(lower):
        others = (side.sub(lambda found: _OTHER[found[0]], name) for side in _SIDES)
        swap[i] = next((index_of[one] for one in others if one != name and one in index_of), i)
    paired = len(index_of) == len(names) and all(swap[j] == i for i, j in enumerate(swap))
    return tuple(swap) if paired and (len(names) < 2 or swap != sorted(swap)) else ()


def with_pairs(info: AnnotationInfo, pairs: Sequence[tuple[str, str]]) -> AnnotationInfo:
    """The meaning of annotations whose keypoints have these sides, each a name or a number from 0."""
    names = info.keypoints
    of_numbers = {str(number): number for number in range(len(names))}
    number_of = of_numbers | {name: number for number, name in enumerate(names)}
    found = [number_of.get(one, -1) for pair in pairs for one in pair]
    if not names or min(found, default=0) < 0 or len({*found}) < len(found):
        raise ConfigError(
            "keypoint_pairs must name different keypoints of the source, "
            f"found {', '.join(map(':'.join, pairs)) or 'none'}",
            hint=f"It has {', '.join(names[:_NAMED]) or 'no keypoints'}.",
        )
    swap = list(range(len(names)))
    for one, other in zip(found[::2], found[1::2], strict=True):
        swap[one], swap[other] = other, one
    return replace(info, swap=tuple(swap))
