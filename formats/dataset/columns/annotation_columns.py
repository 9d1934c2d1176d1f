"""The index columns of objects and masks, and their conversion to and from :class:`Annotations`.

A sample has one list in each column of objects; :data:`OBJECT_COLUMNS` has their names and types.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .annotations import Annotations
from .list_column import ListColumn

Array = npt.NDArray[Any]

OBJECT_COLUMNS: dict[str, pa.DataType] = {
    "object_boxes": pa.large_list(pa.float32()),
    "object_labels": pa.large_list(pa.int64()),
    "object_crowd": pa.large_list(pa.uint8()),
    "object_area": pa.large_list(pa.float32()),
    "object_id": pa.large_list(pa.int64()),
    "object_keypoints": pa.large_list(pa.float32()),
    "object_polygons": pa.large_list(pa.float32()),
    "object_polygon_sizes": pa.large_list(pa.int32()),
    "object_polygon_owner": pa.large_list(pa.int32()),
    "object_runs": pa.large_list(pa.uint32()),
    "object_run_counts": pa.large_list(pa.int32()),
}
"""Index columns of the M objects of a sample.

boxes has 4M numbers (left, top, right, bottom); labels, crowd, area and id have M each; keypoints has 3KM (x,
y, visibility). polygons has x and y of all vertices of all polygons, polygon_sizes the number of vertices of
each polygon, and polygon_owner the object of each polygon. runs has the run lengths of all objects, and
run_counts the number of run lengths of each object."""

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
    "polygons": ("polygons", "polygon_sizes", "polygon_owner"),
    "runs": ("runs", "run_counts"),
}


def tasks_of(columns: Mapping[str, str]) -> frozenset[str]:
    """Return the tasks of an index with these columns, name and type, see :attr:`Dataset.tasks`."""
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
    """Return the :class:`Annotations` of N samples with K keypoints in columns of objects.

    A column has one list for each sample. Without boxes there are no objects. Missing areas are those of
    the boxes, and missing ids are indexes in the sample.
    """
    if "object_boxes" not in columns:
        return _none()
    _check_complete(columns)
    labels = columns["object_labels"]
    boxes = _of_each(columns, "object_boxes", labels, 4).reshape(-1, 4)
    owner = np.repeat(np.arange(samples), labels.counts)
    attributes: dict[str, Any] = {"owner": owner, "boxes": boxes, "labels": labels.values}
    for name, dtype in _NUMBERS.items():
        is_stored = _PREFIX + name in columns
        values = (
            _of_each(columns, _PREFIX + name, labels) if is_stored else _default(name, boxes, owner, labels)
        )
        attributes[name] = values.astype(dtype, copy=False)
    if "object_keypoints" in columns:
        points = _of_each(columns, "object_keypoints", labels, 3 * keypoints)
        attributes["keypoints"] = points.reshape(len(boxes), keypoints, 3)
    if "object_polygons" in columns:
        attributes["polygons"] = _polygons(columns, labels)
    if "object_runs" in columns:
        attributes["runs"] = _runs(columns, labels)
    extra = columns.keys() - OBJECT_COLUMNS.keys()
    attributes["extra"] = {
        name.removeprefix(_PREFIX): _of_each(columns, name, labels) for name in sorted(extra)
    }
    return Annotations(**attributes)


def _check_complete(columns: Mapping[str, ListColumn]) -> None:
    """Raise ValueError if only some of the columns that belong together are there."""
    for names in (("boxes", "labels"), *_PARTS.values()):
        if _PREFIX + names[0] in columns:
            for name in names:
                if _PREFIX + name not in columns:
                    raise ValueError(f"there is {_PREFIX}{names[0]} without {_PREFIX}{name}")


def _none() -> Annotations:
    numbers = np.zeros(0, np.int64)
    floats = np.zeros(0, np.float32)
    return Annotations(numbers, floats.reshape(0, 4), numbers, numbers.astype(bool), floats, numbers)


def _default(name: str, boxes: Array, owner: Array, labels: ListColumn) -> Array:
    if name == "crowd":
        return np.zeros(len(boxes), bool)
    if name == "area":
        return np.asarray(np.prod(boxes[:, 2:] - boxes[:, :2], axis=1))
    return np.asarray(np.arange(len(boxes)) - labels.starts[owner])


def _of_each(columns: Mapping[str, ListColumn], name: str, owners: ListColumn, each: int = 1) -> Array:
    """Return the values of a column that has ``each`` values for each of ``owners``."""
    starts = columns[name].starts
    alike = each == 1 and starts is owners.starts  # take_lists() shares equal starts
    if not alike and not np.array_equal(starts, each * owners.starts):
        raise ValueError(f"{name} has another number of values than there are objects")
    return columns[name].values


def _polygons(columns: Mapping[str, ListColumn], labels: ListColumn) -> list[list[npt.NDArray[np.float32]]]:
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
    polygons: list[list[npt.NDArray[np.float32]]] = [[] for _ in labels.values]
    ends = vertices.values.tolist()
    xy = points.values.reshape(-1, 2)
    first = np.repeat(labels.starts[:-1], sizes.counts)
    for at, start, end in zip((owner + first).tolist(), ends, ends[1:], strict=False):
        polygons[at].append(xy[start:end])
    return polygons


def _runs(columns: Mapping[str, ListColumn], labels: ListColumn) -> list[npt.NDArray[np.uint32]]:
    runs = columns["object_runs"]
    counts = _of_each(columns, "object_run_counts", labels)
    ends = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
    if counts.min(initial=0) < 0 or not np.array_equal(ends[labels.starts], runs.starts):
        raise ValueError("object_runs has another number of values than object_run_counts says")
    bounds = ends.tolist()
    return [runs.values[a:b] for a, b in itertools.pairwise(bounds)]


def to_columns(samples: Sequence[Annotations]) -> dict[str, pa.Array]:
    """Return the index columns of the objects of at least one sample, the inverse of :func:`from_columns`."""
    counts = np.array([len(sample) for sample in samples])
    first = samples[0]
    columns = {
        "object_boxes": _joined([sample.boxes for sample in samples], 4 * counts),
        "object_labels": _joined([sample.labels for sample in samples], counts),
        "object_crowd": _joined([sample.crowd for sample in samples], counts),
        "object_area": _joined([sample.area for sample in samples], counts),
        "object_id": _joined([sample.id for sample in samples], counts),
    }
    if first.keypoints is not None:
        width = 3 * first.keypoints.shape[1]
        columns["object_keypoints"] = _joined([sample.keypoints for sample in samples], width * counts)
    if first.polygons is not None:
        columns |= _polygon_columns([sample.polygons or [] for sample in samples])
    if first.runs is not None:
        columns |= _run_columns([sample.runs or [] for sample in samples])
    arrays = {
        name: columns[name].to_arrow().cast(arrow_type)
        for name, arrow_type in OBJECT_COLUMNS.items()
        if name in columns
    }
    for name in sorted(first.extra):
        arrays[_PREFIX + name] = _joined([sample.extra[name] for sample in samples], counts).to_arrow()
    return arrays


def _joined(parts: Sequence[Array | None], counts: npt.NDArray[np.int64]) -> ListColumn:
    return ListColumn.of_counts(
        counts, np.concatenate([np.ravel(part) for part in parts if part is not None])
    )


def _polygon_columns(samples: list[list[list[npt.NDArray[np.float32]]]]) -> dict[str, ListColumn]:
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


def _run_columns(samples: list[list[npt.NDArray[np.uint32]]]) -> dict[str, ListColumn]:
    flat = [runs for objects in samples for runs in objects]
    return {
        "object_runs": ListColumn.of_counts(
            [sum(map(len, objects)) for objects in samples], np.concatenate([np.zeros(0, np.uint32), *flat])
        ),
        "object_run_counts": ListColumn.of_counts(
            [len(objects) for objects in samples], np.array([len(runs) for runs in flat], np.int32)
        ),
    }
