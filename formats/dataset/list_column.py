"""Lists of different lengths, one a sample, as two flat arrays: Arrow's large_list in NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from stoker import _native

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

__all__ = ["ListColumn", "expand_ranges", "take_lists"]


@dataclass(frozen=True, eq=False)
class ListColumn:
    """N lists of numbers.

    Attributes:
        starts: (N + 1,) int64, where each list begins in ``values``, and where the last one ends.
        values: (V,) numbers.
    """

    starts: Ints
    values: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def of_counts(cls, counts: npt.ArrayLike, values: npt.NDArray[Any]) -> ListColumn:
        """Lists of ``counts``, (N,) integers, values each, one after the other in ``values``."""
        return cls(np.concatenate(([0], np.cumsum(counts, dtype=np.int64))), values)

    @classmethod
    def from_arrow(cls, array: pa.Array) -> ListColumn:
        """View a large_list of numbers that starts at 0, as those of an index do; nothing is copied."""
        starts = (
            np.frombuffer(array.buffers()[1], np.int64)[: len(array) + 1]
            if len(array)
            else np.zeros(1, np.int64)
        )
        return cls(starts, array.values.to_numpy(zero_copy_only=True))

    def to_arrow(self) -> pa.Array:
        """The lists as a large_list array."""
        return pa.LargeListArray.from_arrays(pa.array(self.starts, pa.int64()), pa.array(self.values))

    @property
    def counts(self) -> Ints:
        """(N,) int64, values in each list."""
        return np.diff(self.starts)

    def take(self, rows: npt.ArrayLike) -> ListColumn:
        """The lists at ``rows``, (M,) integers, repeats allowed.

        Raises:
            ValueError: The starts of a list are no places in ``values``: the arrays are damaged.
        """
        return take_lists({"": self}, rows)[""]

    def grouped(self, counts: npt.ArrayLike) -> ListColumn:
        """Lists joined to longer ones.

        Args:
            counts: (M,) integers, how many of the lists each of the longer ones is made of; N in all.
        """
        return ListColumn(self.starts[np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))], self.values)


def take_lists(columns: Mapping[str, ListColumn], rows: npt.ArrayLike) -> dict[str, ListColumn]:
    """The lists at ``rows`` of several columns, each as :meth:`ListColumn.take` gives them.

    Where lists lie alike in two columns, both results have the same ``starts``. In C++: this is the work of a
    batch, and NumPy's calls are what it would cost.
    """
    given = [(column.starts, column.values) for column in columns.values()]
    taken = _native.take_lists(given, np.ascontiguousarray(rows, np.int64))
    return {name: ListColumn(*lists) for name, lists in zip(columns, taken, strict=True)}


def expand_ranges(start: Ints, stop: Ints) -> Ints:
    """Every integer of the ranges from ``start`` to below ``stop``, (M,) each, one range after the other."""
    counts = stop - start
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(start - (ends - counts), counts) + np.arange(total, dtype=np.int64)
