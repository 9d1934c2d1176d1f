"""The columns of a list, which grow by one entry at a time.

Values are kept as text, because the type of a column is known only after its last value.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..dataset.columns import ListColumn, Strings, each, take_strings

Rows = npt.NDArray[np.int64]


class EntryColumns:
    """The columns of a list."""

    def __init__(self, *, cells: bool) -> None:
        self._cells = cells
        self._rows = 0
        self._labels = _Column(cells=cells, names=True)
        self._label_counts = array("q")
        self._several = False
        self._others: dict[str, _Column] = {}

    def gather(self, entries: Iterable[dict[str, Any]]) -> Iterator[str]:
        """Add the entries of a list, and yield the path of each."""
        for entry in entries:
            self._add_labels(entry["label"])
            for name in entry.keys() - self._others.keys() - {"path", "label"}:
                self._others[name] = _Column(cells=self._cells, missing=self._rows)
            for name, column in self._others.items():
                column.add(entry.get(name))
            self._rows += 1
            yield entry["path"]

    def _add_labels(self, label: Any) -> None:
        several = isinstance(label, list)
        self._several |= several
        labels = label if several else [label]
        self._label_counts.append(len(labels))
        for one in labels:
            self._labels.add(one)

    def has_labels(self) -> bool:
        """Whether the entries have labels."""
        unlabelled = type(None) in self._labels.types
        if unlabelled and len(self._labels.types) > 1:
            raise ValueError("some entries have a label and some have none")
        return not unlabelled

    def labels(self, rows: Rows) -> tuple[pa.Array, tuple[str, ...]]:
        """Labels of the entries at ``rows``, (M,) int64."""
        # -> (M,) int64
        types = self._labels.types
        if not self._cells and len(types) > 1:
            raise ValueError("some labels are numbers and some are names")
        if not self._several and float in types and str not in types:
            raise ValueError("the labels are numbers, but no integers")
        counts = np.frombuffer(self._label_counts, np.int64)
        chosen = ListColumn.of_counts(counts, np.arange(int(counts.sum()))).take(rows)
        classes: tuple[str, ...] = ()
        numbers = self._labels.integers(chosen.values)
        if numbers is None:
            numbers, classes = _classes(self._labels.text(chosen.values))
        return ListColumn(chosen.starts, numbers).to_arrow() if self._several else pa.array(numbers), classes

    def class_names(self) -> tuple[str, ...]:
        """The names of the classes of all entries, in sorted order; empty if labels are numbers."""
        everything = np.arange(len(self._labels), dtype=np.int64)
        if self._labels.integers(everything) is not None:
            return ()
        return _classes(self._labels.text(everything))[1]

    def others(self, rows: Rows) -> dict[str, pa.Array]:
        """The further columns of the entries at ``rows``: int64, float64 or large_string, (M,) each."""
        return {name: self._others[name].take(rows) for name in sorted(self._others)}


class _Column:
    """Values of a column, kept as text, and their types."""

    def __init__(self, *, cells: bool, names: bool = False, missing: int = 0) -> None:
        self.types: set[type] = set()
        self._cells = cells
        self._names = names
        self._strings = Strings()
        for _ in range(missing):
            self.add(None)

    def __len__(self) -> int:
        return len(self._strings)

    def add(self, value: Any) -> None:
        is_cell = self._cells and value is not None
        self.types.add(self._type_of_cell(value) if is_cell else type(value))
        # JSON can spell half of a surrogate pair, which UTF-8 cannot encode.
        self._strings.add(_text(value).encode(errors="backslashreplace"))

    def _type_of_cell(self, cell: str) -> type:
        # Python allows an underscore between digits, but no writer of CSV means a number by it.
        if str in self.types or "_" in cell:
            return str
        for number_type in (int, float):
            with suppress(ValueError):
                number = number_type(cell)
                is_name = self._names and number_type is int and str(number) != cell.strip()
                return str if is_name else number_type
        return str

    def take(self, rows: Rows) -> pa.Array:
        """The values at ``rows`` as a column of integers, floats (NaN where one is missing) or text."""
        integers = self.integers(rows)
        if integers is not None:
            return pa.array(integers)
        text = self.text(rows)
        if self.types & {int, float} and self.types <= {int, float, type(None)}:
            return pa.array(np.fromiter((float(one or "nan") for one in each(text)), np.float64, len(rows)))
        return text

    def integers(self, rows: Rows) -> npt.NDArray[np.int64] | None:
        """The values at ``rows``; None if any value of the column is no integer of 64 bits."""
        with suppress(OverflowError):
            if self.types <= {int}:
                return np.fromiter(map(int, each(self.text(rows))), np.int64, len(rows))
        return None

    def text(self, rows: Rows) -> pa.Array:
        """The values at ``rows``, (M,) large_string."""
        return take_strings(self._strings.to_arrow(), rows)


def _classes(names: pa.Array) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """Number names by their sorted order: (M,) int64, and each name once."""
    encoded = names.dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    order = sorted(range(len(distinct)), key=distinct.__getitem__)
    number = np.empty(len(distinct), np.int64)
    number[order] = np.arange(len(distinct))
    return number[encoded.indices.to_numpy()], tuple(distinct[i] for i in order)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if type(value) is int:  # as JSON writes it, and faster
        return str(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
