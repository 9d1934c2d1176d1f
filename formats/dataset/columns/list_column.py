"""Columns of lists of different lengths, as two flat arrays: Arrow's large_list in NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stoker import _native

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ListColumn:
    """N lists of numbers."""

    starts: Ints  # (N + 1,) int64, the start of each list in ``values``, and the end of the last one
    values: npt.NDArray[Any]  # (V,) numbers

    def __len__(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def of_counts(cls, counts: npt.ArrayLike, values: npt.NDArray[Any]) -> ListColumn:
        """Return lists that follow each other in ``values``; ``counts``, (N,) integers, has their lengths."""
        return cls(np.concatenate(([0], np.cumsum(counts, dtype=np.int64))), values)

    @classmethod
    def from_arrow(cls, array: pa.Array) -> ListColumn:
        """View a large_list of numbers with offset 0, as an index has it; nothing is copied."""
        values = array.values.to_numpy(zero_copy_only=True)
        if not len(array):
            return cls(np.zeros(1, np.int64), values)
        return cls(np.frombuffer(array.buffers()[1], np.int64)[: len(array) + 1], values)

    def to_arrow(self) -> pa.Array:
        """Return the lists as a large_list array."""
        return pa.LargeListArray.from_arrays(pa.array(self.starts, pa.int64()), pa.array(self.values))

    @property
    def counts(self) -> Ints:
        """(N,) int64, values in each list."""
        return np.diff(self.starts)

    def take(self, rows: npt.ArrayLike) -> ListColumn:
        """Return the lists at ``rows``, (M,) integers, repeats allowed."""
        return take_lists({"": self}, rows)[""]

    def grouped(self, counts: npt.ArrayLike) -> ListColumn:
        """Return M longer lists, joined from ``counts`` consecutive lists each, (M,) integers with sum N."""
        return ListColumn(self.starts[np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))], self.values)


def take_lists(columns: Mapping[str, ListColumn], rows: npt.ArrayLike) -> dict[str, ListColumn]:
    """Return the lists at ``rows`` of several columns, as :meth:`ListColumn.take` does.

    Columns with equal starts give results that share one ``starts``. The work is done in C++, because for a
    batch the calls of NumPy would take longer than the work.
    """
    given = [(column.starts, column.values) for column in columns.values()]
    taken = _native.take_lists(given, np.ascontiguousarray(rows, np.int64))
    return {name: ListColumn(*lists) for name, lists in zip(columns, taken, strict=True)}


def expand_ranges(start: Ints, stop: Ints) -> Ints:
    """Return every integer of M ranges, from ``start`` to below ``stop``, one range after the other."""
    counts = stop - start
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(start - (ends - counts), counts) + np.arange(total, dtype=np.int64)


def renumber(labels: pa.Array, number_of: Ints) -> pa.Array:
    """Return renumbered labels, (N,), one or a list for each sample; ``number_of`` has the new numbers."""
    if not pa.types.is_large_list(labels.type):
        return pa.array(number_of[labels.to_numpy(zero_copy_only=False)])
    lists = ListColumn.from_arrow(labels)
    return ListColumn(lists.starts, number_of[lists.values]).to_arrow()
