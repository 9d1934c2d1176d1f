"""Rows of the index of external shards, which grow in parts on a disk.

Labels that are names, and further columns, get their final form only when all records are known: names are
numbered in sorted order. A column becomes integers if all of its values are integers, floats if all are
numbers or missing, and otherwise text.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from stoker.errors import SourceError

from ..containers.messages.image_record import ExternalObjects, ExternalSample, Value
from ..dataset.columns.strings import each
from ..dataset.index import IMAGE_COLUMNS, KNOWN_COLUMNS, REQUIRED_COLUMNS, Index
from ..dataset.index_writing import concat_indexes, write_index
from ..sources.annotated.object_issues import BadObjectError, checked_box
from ..sources.annotated.object_table import ObjectTable
from .joined_records import JoinedRecords

RESERVED_NAMES = {*KNOWN_COLUMNS, "label", "row", "image", "mask"}
"""Names that a further column cannot have."""

_COLUMNS = [*REQUIRED_COLUMNS, *IMAGE_COLUMNS]
_INT64 = range(-(1 << 63), 1 << 63)


class SampleRows:
    """Rows in memory, and parts of an index with the rows before them."""

    def __init__(self, folder: Path, most: int, columns: Sequence[str], joined: JoinedRecords) -> None:
        self.folder = folder
        self.joined = joined
        self._most = most
        self._rows: list[tuple[Any, ...]] = []
        self._labels: list[int | float | tuple[int, ...]] = []
        self._count = 0
        self._objects = _ObjectRows()
        self._values: dict[str, list[str]] = {name: [] for name in columns}
        self._types: dict[str, set[type]] = {name: set() for name in columns}
        self._parts: list[Path] = []
        self.class_names: dict[str, int] = {}

    def add(self, values: tuple[Any, ...], sample: ExternalSample) -> Iterator[str]:
        """Add a row, and yield a reason for each of its objects that is left out."""
        header, label = sample.header, sample.label
        columns = {
            f"{name}_" if name in RESERVED_NAMES else name: part for name, part in sample.columns.items()
        }
        self._check_columns(columns)
        self._rows.append((*values, header.codec, header.height, header.width, header.orientation))
        if label is not None:
            if isinstance(label, str):
                label = self.class_names.setdefault(label, len(self.class_names))
            self._labels.append(label)
        for name, column in self._values.items():
            value = columns.get(name)
            fits = not isinstance(value, int) or value in _INT64
            self._types[name].add(type(value) if fits else str)
            column.append("" if value is None else str(value))
        if sample.objects is not None:
            yield from self._objects.add(self._count, sample.objects, header.height, header.width)
        self._count += 1
        if len(self._rows) >= self._most:
            self._flush()

    def _check_columns(self, columns: Mapping[str, Value | None]) -> None:
        """Take the columns of the first sample, and refuse others later."""
        for name in columns.keys() - self._values.keys():
            if self._count:
                raise SourceError(
                    f"the record has the column {name!r}, unlike those before it",
                    hint="name the columns that all records have: --column NAME=COLUMN",
                )
            self._values[name], self._types[name] = [], set()

    def finish(self, path: Path, sorted_names: Sequence[str]) -> bool:
        """Write the index of all rows; return whether there are any.

        ``sorted_names`` are the names of the classes by label, for labels that were names.
        """
        self._flush()
        if not self._parts:
            return False
        changes = self._changes(sorted_names)
        if changes or self._values:
            for part in self._parts:
                self._rewrite(part, changes)
        concat_indexes(self._parts, path, self._objects.columns(self._count))
        for part in self._parts:
            part.unlink()
        return True

    def _flush(self) -> None:
        if not self._rows:
            return
        part = self.folder / f"part-{len(self._parts)}"
        values = zip(*self._rows, strict=True)
        columns: dict[str, Any] = {
            name: column if name == "key" else np.array(column, np.int64)
            for name, column in zip(_COLUMNS, values, strict=True)
        }
        if self._labels:
            columns["label"] = _typed(self._labels)
        for name, texts in self._values.items():
            columns[name] = pa.array(texts, pa.large_string())
        write_index(part, columns)
        self._parts.append(part)
        self._rows.clear()
        self._labels.clear()
        for texts in self._values.values():
            texts.clear()

    def _changes(self, sorted_names: Sequence[str]) -> dict[str, Callable[[pa.Array], pa.Array]]:
        """Return the functions that give columns their final form, by name of the column."""
        changes: dict[str, Callable[[pa.Array], pa.Array]] = {}
        if self.class_names:
            number_of = {name: number for number, name in enumerate(sorted_names)}
            numbers = np.array([number_of[name] for name in self.class_names], np.int64)
            changes["label"] = lambda labels: pa.array(numbers[labels.to_numpy()])
        for name, types in self._types.items():
            if types <= {int}:
                changes[name] = _integers
            elif types <= {int, float, type(None)} and types != {type(None)}:
                changes[name] = _floats
        return changes

    def _rewrite(self, part: Path, changes: Mapping[str, Callable[[pa.Array], pa.Array]]) -> None:
        """Write a part anew with its columns in their final form, without those that have no value."""
        index = Index.open(part)
        empty = {name for name, types in self._types.items() if types == {type(None)}}
        columns = {name: index.arrow(name) for name in index.schema.names if name not in empty}
        columns |= {name: change(columns[name]) for name, change in changes.items()}
        rewritten = part.with_name(f"{part.name}-again")
        write_index(rewritten, columns)
        rewritten.rename(part)


def _typed(labels: list[Any]) -> Any:
    """Return lists as they are, and numbers as an array."""
    if isinstance(labels[0], tuple):
        return list(labels)
    return np.array(labels, np.float32 if isinstance(labels[0], float) else np.int64)


def _integers(texts: pa.Array) -> pa.Array:
    return pa.array(np.fromiter(map(int, each(texts)), np.int64, len(texts)))


def _floats(texts: pa.Array) -> pa.Array:
    return pa.array(np.fromiter((float(text or "nan") for text in each(texts)), np.float64, len(texts)))


class _ObjectRows:
    """The objects of all rows, in memory until the index is written."""

    def __init__(self) -> None:
        self._table = ObjectTable()
        self._is_used = False

    def add(self, row: int, objects: ExternalObjects, height: int, width: int) -> Iterator[str]:
        """Add the objects of a row, and yield a reason for each that is left out.

        Boxes are clipped to the image, of ``height`` x ``width`` pixels.
        """
        self._is_used = True
        table = self._table
        for name in objects.flags.keys() - table.extra.keys():
            table.extra[name] = array("B", bytes(len(table)))
        for i, (box, label) in enumerate(zip(objects.boxes, objects.labels, strict=True)):
            try:
                clipped = _clipped(box, height, width)
            except BadObjectError as error:
                yield str(error.args[0])
                continue
            table.add(
                row,
                clipped,
                label,
                i,
                area=None if objects.area is None else objects.area[i],
                crowd=objects.crowd is not None and bool(objects.crowd[i]),
                extra={name: objects.flags[name][i] if name in objects.flags else 0 for name in table.extra},
            )

    def columns(self, rows: int) -> dict[str, pa.Array]:
        """Return the columns of an index of ``rows`` rows; none if no record has objects."""
        return self._table.columns(np.array(self._table.image, np.int64), rows) if self._is_used else {}


def _clipped(
    box: tuple[float, float, float, float], height: int, width: int
) -> tuple[float, float, float, float]:
    """Return a box without the parts outside the image."""
    left, top, right, bottom = checked_box(*box)
    inside = max(left, 0.0), max(top, 0.0), min(right, float(width)), min(bottom, float(height))
    if not (inside[0] < inside[2] and inside[1] < inside[3]):
        raise BadObjectError("object outside its image")
    return inside
