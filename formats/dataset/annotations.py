"""The objects of images: in memory, in index columns, and as the run lengths of COCO.

Coordinates are (x, y) in pixels of the image after its EXIF orientation has been applied. Edges of pixels are
integers: the centre of the first pixel is (0.5, 0.5). In the index a sample has one list in each column of
objects; :data:`OBJECT_COLUMNS` has their names and types.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .columns import ListColumn

Array = npt.NDArray[Any]
Polygons = list[list[npt.NDArray[np.float32]]]
"""The polygons of each object, (P, 2) float32 each."""
Runs = npt.NDArray[np.uint32]
"""(R,) run lengths of a mask in column order, the first of background, which may be empty."""

OBJECT_COLUMNS: dict[str, pa.DataType] = {
    "object_boxes": pa.large_list(pa.float32()),
    "object_labels": pa.large_list(pa.int64()),
    "object_crowd": pa.large_list(pa.uint8()),
    "object_area": pa.large_list(pa.float32()),
    "object_id": pa.large_list(pa.int64()),
    "object_keypoints": pa.large_list(pa.float32()),
    "object_corners": pa.large_list(pa.float32()),
    "object_polygons": pa.large_list(pa.float32()),
    "object_polygon_sizes": pa.large_list(pa.int32()),
    "object_polygon_owner": pa.large_list(pa.int32()),
    "object_runs": pa.large_list(pa.uint32()),
    "object_run_counts": pa.large_list(pa.int32()),
}
"""Index columns of the M objects of a sample.

boxes has 4M numbers (left, top, right, bottom); labels, crowd, area and id have M each; keypoints has 3KM (x,
y, visibility), corners 8M (x and y of four corners). polygons has x and y of all vertices of all polygons,
polygon_sizes the number of vertices of each polygon, and polygon_owner the object of each polygon. runs has
the run lengths of all objects, and run_counts the number of run lengths of each object."""

MASK_COLUMNS: dict[str, pa.DataType] = {
    "mask_offset": pa.int64(),
    "mask_length": pa.int64(),
    "mask_crc": pa.uint32(),
}
"""Index columns of semantic segmentation: offset, length and checksum of a mask, a PNG in the shard."""

_PREFIX = "object_"
_NO_CLASS = ("float", "double")  # types of labels that are numbers, not classes
_NUMBERS = {"crowd": bool, "area": np.float32, "id": np.int64}
_ALWAYS = ("boxes", "labels", *_NUMBERS)
_PARTS = {
    "keypoints": ("keypoints",),
    "corners": ("corners",),
    "polygons": ("polygons", "polygon_sizes", "polygon_owner"),
    "runs": ("runs", "run_counts"),
}
_MOST_DIGITS = 7  # of five bits in a compressed run length: more than any has
_LONGEST_RUN = (1 << 32) - 1


@dataclass(frozen=True)
class AnnotationInfo:
    """The meaning of the annotations of a dataset, apart from the names of its classes."""

    keypoints: tuple[str, ...] = ()  # Names of the K keypoints of an object
    # K indexes: keypoint k of a mirrored image is keypoint ``swap[k]`` of the original; empty if not known
    swap: tuple[int, ...] = ()
    skeleton: tuple[tuple[int, int], ...] = ()  # Pairs of keypoints, from 0, that a drawing joins
    # Value in masks for pixels that belong to no class; None if every value is a class
    ignore: int | None = None
    # Names of the values in masks; the index is the value. Empty if they have no names
    mask_classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        number = len(self.keypoints)
        if self.swap and sorted(self.swap) != list(range(number)):
            raise ValueError(f"swap must name each of {number} keypoints once, found {list(self.swap)}")
        if any(not 0 <= point < number for pair in self.skeleton for point in pair):
            raise ValueError(f"the skeleton joins keypoints that are not among {number}")
        if self.ignore is not None and not 0 <= self.ignore < 1 << 16:
            raise ValueError(f"ignore must be a value of a mask, 0 to 65535, found {self.ignore}")


@dataclass(frozen=True, eq=False)
class Annotations:
    """The M objects of N samples, sample by sample."""

    owner: npt.NDArray[np.int64]  # (M,) int64, ascending, index of the object's sample among the N samples
    boxes: npt.NDArray[np.float32]  # (M, 4) float32, left, top, right, bottom, pixels
    labels: npt.NDArray[np.int64]  # (M,) int64
    # (M,) bool, whether it is a group of objects that are annotated as one (COCO's ``iscrowd``)
    crowd: npt.NDArray[np.bool_]
    # (M,) float32, pixels of the object if the source states them, otherwise of its box
    area: npt.NDArray[np.float32]
    id: npt.NDArray[np.int64]  # (M,) int64, the object's number in its source
    # (M, K, 3) float32, x, y, visibility (0 not labelled, 1 hidden, 2 visible); None if the dataset has none
    keypoints: npt.NDArray[np.float32] | None = None
    # (M, 4, 2) float32, x and y of the corners of oriented boxes, in the order of the source and not clipped;
    # None if the dataset has none. ``boxes`` are upright boxes around them
    corners: npt.NDArray[np.float32] | None = None
    polygons: Polygons | None = None
    # The run lengths of each object, empty for objects with polygons; None if the dataset has none
    runs: list[Runs] | None = None
    # Other columns of numbers, (M,) each, by name, such as Pascal VOC's "difficult"
    extra: Mapping[str, Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.owner)

    @property
    def has_mask(self) -> npt.NDArray[np.bool_]:
        """(M,) bool, whether an object has polygons or run lengths."""
        has = np.zeros(len(self), bool)
        for shapes in (self.polygons, self.runs):
            has |= np.array([len(one) > 0 for one in shapes], bool) if shapes else False
        return has

    def take(self, which: npt.ArrayLike) -> Annotations:
        """Return some of the objects, by (M,) bool or by integers."""
        at = np.asarray(which)
        at = np.flatnonzero(at) if at.dtype == bool else at.astype(np.int64)
        return Annotations(**{item.name: _taken(getattr(self, item.name), at) for item in fields(self)})

    def split(self, samples: int) -> list[Annotations]:
        """Return the objects of each of the ``samples`` samples; their owner becomes 0."""
        bounds = np.searchsorted(self.owner, np.arange(samples + 1)).tolist()
        parts = (self.take(np.arange(a, b)) for a, b in itertools.pairwise(bounds))
        return [replace(part, owner=np.zeros_like(part.owner)) for part in parts]


def _taken(value: Any, at: npt.NDArray[np.int64]) -> Any:
    if isinstance(value, list):
        return [value[i] for i in at.tolist()]
    if isinstance(value, Mapping):
        return {name: array[at] for name, array in value.items()}
    return None if value is None else value[at]


def tasks_of(columns: Mapping[str, str]) -> frozenset[str]:
    """Return the tasks of an index with these columns, name and type, as ``Dataset.tasks`` has them."""
    needs = {"boxes": "object_boxes", "keypoints": "object_keypoints", "segmentation": "mask_offset"}
    tasks = {task for task, column in needs.items() if column in columns}
    if columns.keys() & {"object_polygons", "object_runs"}:
        tasks.add("instances")
    if columns.get("label", _NO_CLASS[0]) not in _NO_CLASS:
        tasks.add("label" if columns["label"] == "int64" else "labels")
    return frozenset(tasks)


def is_object_column(name: str, arrow_type: str) -> bool:
    """Return whether an index column is one of objects, by its name and type."""
    return name.startswith(_PREFIX) and arrow_type.startswith("large_list")


def columns_of(types: Mapping[str, str], parts: Collection[str] | None = None) -> list[str]:
    """Return the names of the columns that :class:`Annotations` are made of."""
    names = [name for name, arrow_type in types.items() if is_object_column(name, arrow_type)]
    if parts is None:
        return names
    wanted = {_PREFIX + name for part in _PARTS.keys() & parts for name in _PARTS[part]}
    wanted |= {_PREFIX + name for name in _ALWAYS}
    return [name for name in names if name in wanted or ("extra" in parts and name not in OBJECT_COLUMNS)]


def from_columns(columns: Mapping[str, ListColumn], samples: int, keypoints: int) -> Annotations:
    """Return the :class:`Annotations` of N samples with K keypoints in columns of objects."""
    # A column has one list for each sample. Without boxes there are no objects. A missing area is the area of
    # the box, and a missing id is the index in the sample.
    if "object_boxes" not in columns:
        numbers, floats = np.zeros(0, np.int64), np.zeros(0, np.float32)
        return Annotations(numbers, floats.reshape(0, 4), numbers, numbers.astype(bool), floats, numbers)
    _check_complete(columns)
    labels = columns["object_labels"]
    boxes = _of_each(columns, "object_boxes", labels, 4).reshape(-1, 4)
    owner = np.repeat(np.arange(samples), labels.counts)
    attributes: dict[str, Any] = {"owner": owner, "boxes": boxes, "labels": labels.values}
    for name, dtype in _NUMBERS.items():
        if _PREFIX + name in columns:
            values = _of_each(columns, _PREFIX + name, labels)
        elif name == "crowd":
            values = np.zeros(len(boxes), bool)
        elif name == "area":
            values = np.asarray(np.prod(boxes[:, 2:] - boxes[:, :2], axis=1))
        else:
            values = np.asarray(np.arange(len(boxes)) - labels.starts[owner])
        attributes[name] = values.astype(dtype, copy=False)
    if "object_keypoints" in columns:
        points = _of_each(columns, "object_keypoints", labels, 3 * keypoints)
        attributes["keypoints"] = points.reshape(len(boxes), keypoints, 3)
    if "object_corners" in columns:
        attributes["corners"] = _of_each(columns, "object_corners", labels, 8).reshape(-1, 4, 2)
    if "object_polygons" in columns:
        attributes["polygons"] = _polygons(columns, labels)
    if "object_runs" in columns:
        attributes["runs"] = _runs(columns, labels)
    extra = sorted(columns.keys() - OBJECT_COLUMNS.keys())
    attributes["extra"] = {name.removeprefix(_PREFIX): _of_each(columns, name, labels) for name in extra}
    return Annotations(**attributes)


def _check_complete(columns: Mapping[str, ListColumn]) -> None:
    """Raise ValueError if only some of the columns that belong together are there."""
    for names in (("boxes", "labels"), *_PARTS.values()):
        if _PREFIX + names[0] in columns:
            for name in names:
                if _PREFIX + name not in columns:
                    raise ValueError(f"there is {_PREFIX}{names[0]} without {_PREFIX}{name}")


def _of_each(columns: Mapping[str, ListColumn], name: str, owners: ListColumn, each: int = 1) -> Array:
    """Return the values of a column that has ``each`` values for each of ``owners``."""
    starts = columns[name].starts
    alike = each == 1 and starts is owners.starts  # take_lists() shares equal starts
    if not alike and not np.array_equal(starts, each * owners.starts):
        raise ValueError(f"{name} has another number of values than there are objects")
    return columns[name].values


def _polygons(columns: Mapping[str, ListColumn], labels: ListColumn) -> Polygons:
    points, sizes = columns["object_polygons"], columns["object_polygon_sizes"]
    owner = _of_each(columns, "object_polygon_owner", sizes).astype(np.int64)
    vertices = ListColumn(sizes.starts, np.concatenate(([0], np.cumsum(sizes.values, dtype=np.int64))))
    objects = np.repeat(labels.counts, sizes.counts)
    if sizes.values.min(initial=0) < 0 or not np.array_equal(
        2 * vertices.values[sizes.starts], points.starts
    ):
        raise ValueError("object_polygons has another number of vertices than object_polygon_sizes says")
    if ((owner < 0) | (owner >= objects)).any():
        raise ValueError("object_polygon_owner names an object that its sample does not have")
    polygons: Polygons = [[] for _ in labels.values]
    ends = vertices.values.tolist()
    xy = points.values.reshape(-1, 2)
    first = np.repeat(labels.starts[:-1], sizes.counts)
    for at, start, end in zip((owner + first).tolist(), ends, ends[1:], strict=False):
        polygons[at].append(xy[start:end])
    return polygons


def _runs(columns: Mapping[str, ListColumn], labels: ListColumn) -> list[Runs]:
    runs = columns["object_runs"]
    counts = _of_each(columns, "object_run_counts", labels)
    ends = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
    if counts.min(initial=0) < 0 or not np.array_equal(ends[labels.starts], runs.starts):
        raise ValueError("object_runs has another number of values than object_run_counts says")
    return [runs.values[a:b] for a, b in itertools.pairwise(ends.tolist())]


def to_columns(samples: Sequence[Annotations]) -> dict[str, pa.Array]:
    """Return the index columns of the objects of at least one sample, the inverse of :func:`from_columns`."""
    counts, first = np.array([len(sample) for sample in samples]), samples[0]
    widths = {"boxes": 4, "labels": 1, "crowd": 1, "area": 1, "id": 1}
    if first.keypoints is not None:
        widths["keypoints"] = 3 * first.keypoints.shape[1]
    if first.corners is not None:
        widths["corners"] = 8
    columns = {
        _PREFIX + name: _joined([getattr(sample, name) for sample in samples], width * counts)
        for name, width in widths.items()
    }
    if first.polygons is not None:
        columns |= _polygon_columns([sample.polygons or [] for sample in samples])
    if first.runs is not None:
        columns |= _run_columns([sample.runs or [] for sample in samples])
    known = {name: kind for name, kind in OBJECT_COLUMNS.items() if name in columns}
    arrays = {name: columns[name].to_arrow().cast(kind) for name, kind in known.items()}
    for name in sorted(first.extra):
        arrays[_PREFIX + name] = _joined([sample.extra[name] for sample in samples], counts).to_arrow()
    return arrays


def _joined(parts: Sequence[Array], counts: npt.NDArray[np.int64]) -> ListColumn:
    return ListColumn.of_counts(counts, np.concatenate([np.ravel(part) for part in parts]))


def _polygon_columns(samples: list[Polygons]) -> dict[str, ListColumn]:
    points, sizes, owners, polygons, numbers = [np.zeros(0, np.float32)], [], [], [], []
    for objects in samples:
        flat = [(owner, polygon) for owner, some in enumerate(objects) for polygon in some]
        owners += [owner for owner, _ in flat]
        sizes += [len(polygon) for _, polygon in flat]
        points += [polygon.ravel() for _, polygon in flat]
        polygons.append(len(flat))
        numbers.append(2 * sum(len(polygon) for _, polygon in flat))
    return {
        "object_polygons": ListColumn.of_counts(numbers, np.concatenate(points)),
        "object_polygon_sizes": ListColumn.of_counts(polygons, np.array(sizes, np.int32)),
        "object_polygon_owner": ListColumn.of_counts(polygons, np.array(owners, np.int32)),
    }


def _run_columns(samples: list[list[Runs]]) -> dict[str, ListColumn]:
    flat = [runs for objects in samples for runs in objects]
    numbers = [sum(map(len, objects)) for objects in samples]
    counts = np.array([len(runs) for runs in flat], np.int32)
    return {
        "object_runs": ListColumn.of_counts(numbers, np.concatenate([np.zeros(0, np.uint32), *flat])),
        "object_run_counts": ListColumn.of_counts([len(objects) for objects in samples], counts),
    }


# Run lengths as COCO has them (common/maskApi.c of cocodataset/cocoapi): the pixels of a mask are read column
# by column, and runs alternate between background and object.


def decompress_runs(text: str) -> Runs:
    """Return the (R,) uint32 run lengths in a compressed text, such as ``counts`` of a COCO RLE."""
    # A number has digits of five bits, the lowest first. Each digit is one character from "0" on, plus 32 if
    # another digit follows; bit 4 of the last digit is the sign. From the fourth number on, each is the
    # difference to the number two before it.
    digits = np.frombuffer(text.encode(), np.uint8).astype(np.int64) - 48
    if not len(digits):
        return np.zeros(0, np.uint32)
    if digits.min() < 0 or digits.max() > 63 or digits[-1] & 32:
        raise ValueError("run lengths that are not a compressed RLE")
    ends = np.flatnonzero(digits & 32 == 0)
    starts = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - starts + 1
    if lengths.max() > _MOST_DIGITS:
        raise ValueError("run lengths that are too large")
    shift = 5 * (np.arange(len(digits)) - np.repeat(starts, lengths))
    values = np.add.reduceat((digits & 31) << shift, starts)
    values -= np.where(digits[ends] & 16, 1 << 5 * lengths, 0)
    values[1::2] = np.cumsum(values[1::2])
    values[2::2] = np.cumsum(values[2::2])
    return checked_runs(values)


def checked_runs(values: npt.ArrayLike) -> Runs:
    """Return run lengths as (R,) uint32."""
    runs = np.asarray(values)
    if runs.ndim != 1 or (runs.size and runs.dtype.kind not in "iu"):
        raise ValueError("run lengths that are not integers")
    if runs.size and not 0 <= runs.min() <= runs.max() <= _LONGEST_RUN:
        raise ValueError("run lengths that are negative or too large")
    return runs.astype(np.uint32)


def mask_of_runs(runs: npt.NDArray[np.integer], height: int, width: int) -> npt.NDArray[np.bool_]:
    """Return the mask of run lengths, (height, width) bool."""
    lengths = np.asarray(runs, np.int64)
    if int(lengths.sum()) != height * width:
        raise ValueError(f"run lengths of {int(lengths.sum())} pixels where the image has {height * width}")
    pixels = np.repeat(np.arange(len(lengths)) % 2 == 1, lengths)
    return np.asarray(pixels.reshape(width, height).T)


def runs_of_mask(mask: npt.NDArray[np.bool_]) -> Runs:
    """Return the run lengths, (R,) uint32, of a mask, (H, W) bool."""
    pixels = mask.ravel(order="F")
    changes = np.flatnonzero(pixels[1:] != pixels[:-1]) + 1
    bounds = np.concatenate(([0], changes, [len(pixels)]))
    if len(pixels) and pixels[0]:
        bounds = np.concatenate(([0], bounds))
    return np.diff(bounds).astype(np.uint32)
