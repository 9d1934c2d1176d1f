"""What the entries of a list say of their images, as columns that grow by an entry at a time.

Values are kept as text; what kind of column they make is known when the last one has been seen.
"""

from __future__ import annotations

import json
from array import array
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ...dataset.list_column import ListColumn
from ...dataset.strings import Strings, each, take_strings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    Rows = npt.NDArray[np.int64]

__all__ = ["ListColumns"]


class ListColumns:
    """The columns of a list.

    Args:
        cells: Whether values are text that may stand for numbers, as in CSV.
    """

    def __init__(self, *, cells: bool) -> None:
        self._cells = cells
        self._rows = 0
        self._labels = _Column(cells=cells, names=True)
        self._label_counts = array("q")
        self._several = False
        self._others: dict[str, _Column] = {}

    def gather(self, entries: Iterable[dict[str, Any]]) -> Iterator[str]:
        """Take in the entries of a list, and hand out the path of each."""
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

    def labels(self, rows: Rows) -> tuple[pa.Array, tuple[str, ...]]:
        """Labels of the entries at ``rows``, (M,) int64.

        Returns:
            (M,) int64, or large_list<int64> if one of all entries has a list of labels; and where labels
            are names those of the classes in these rows, in sorted order.

        Raises:
            ValueError: Labels of all entries are neither integers nor names.
        """
        kinds = self._labels.kinds
        if not self._cells and len(kinds) > 1:
            raise ValueError("some labels are numbers and some are names")
        if not self._several and float in kinds and str not in kinds:
            raise ValueError("the labels are numbers, but no integers")
        counts = np.frombuffer(self._label_counts, np.int64)
        taken = ListColumn.of_counts(counts, np.arange(int(counts.sum()))).take(rows)
        classes: tuple[str, ...] = ()
        numbers = self._labels.integers(taken.values)
        if numbers is None:
            numbers, classes = _classes(self._labels.text(taken.values))
        return ListColumn(taken.starts, numbers).to_arrow() if self._several else pa.array(numbers), classes

    def others(self, rows: Rows) -> dict[str, pa.Array]:
        """The further columns of the entries at ``rows``: int64, float64 or large_string, (M,) each."""
        return {name: self._others[name].take(rows) for name in sorted(self._others)}


class _Column:
    """Values as text, and which kinds of them there are.

    Args:
        cells: Whether they are text that may stand for numbers.
        names: Whether text is a number only if no other text is the same number: 7, and not 007.
        missing: How many values to begin with nobody has given.
    """

    def __init__(self, *, cells: bool, names: bool = False, missing: int = 0) -> None:
        self.kinds: set[type] = set()
        self._cells = cells
        self._names = names
        self._strings = Strings()
        for _ in range(missing):
            self.add(None)

    def add(self, value: Any) -> None:
        self.kinds.add(self._kind_of_cell(value) if self._cells else type(value))
        # Half of a surrogate pair, which JSON can spell, is no Unicode.
        self._strings.add(_text(value).encode(errors="backslashreplace"))

    def _kind_of_cell(self, cell: str) -> type:
        # Python takes an underscore for one that sets digits apart, and nobody else does.
        if str in self.kinds or "_" in cell:
            return str
        for kind in (int, float):
            with suppress(ValueError):
                number = kind(cell)
                return str if self._names and kind is int and str(number) != cell.strip() else kind
        return str

    def take(self, rows: Rows) -> pa.Array:
        """The values at ``rows`` as a column of integers, of floats, of which none is NaN, or of text."""
        integers = self.integers(rows)
        if integers is not None:
            return pa.array(integers)
        text = self.text(rows)
        if self.kinds & {int, float} and self.kinds <= {int, float, type(None)}:
            return pa.array(np.fromiter((float(one or "nan") for one in each(text)), np.float64, len(rows)))
        return text

    def integers(self, rows: Rows) -> npt.NDArray[np.int64] | None:
        """The values at ``rows``; None if one of all values is no integer, or has more than 64 bits."""
        with suppress(OverflowError):
            if self.kinds <= {int}:
                return np.fromiter(map(int, each(self.text(rows))), np.int64, len(rows))
        return None

    def text(self, rows: Rows) -> pa.Array:
        """The values at ``rows``, (M,) large_string."""
        return take_strings(self._strings.to_arrow(), rows)


def _classes(names: pa.Array) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """Number names by their sorted order: (M,) int64, and each name once."""
    encoded = names.dictionary_encode()
    found = encoded.dictionary.to_pylist()
    order = sorted(range(len(found)), key=found.__getitem__)
    number = np.empty(len(found), np.int64)
    number[order] = np.arange(len(found))
    return number[encoded.indices.to_numpy()], tuple(found[i] for i in order)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
