"""Rows of an index by their positions in a selection, the base of :class:`..dataset.Dataset`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..index import Index
from ..reading.samples import Samples
from .positions import checked_positions


class SelectedRows:
    """All rows of an index, or some of them in any order; a position counts them from 0.

    Attributes:
        index: The whole index, even of a selection.
    """

    def __init__(self, index: Index, rows: npt.NDArray[np.int64] | None) -> None:
        self.index = index
        self._rows = rows

    def __len__(self) -> int:
        return len(self.index) if self._rows is None else len(self._rows)

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """(N,) int64: the row in the index of every sample of this dataset."""
        return np.arange(len(self.index), dtype=np.int64) if self._rows is None else self._rows

    @property
    def is_distinct(self) -> bool:
        """Whether no sample was selected twice."""
        rows = self._rows
        # Rows from a mask or a condition ascend, and need no sorting.
        return rows is None or bool((rows[1:] > rows[:-1]).all()) or len(np.unique(rows)) == len(rows)

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return the (N,) values of an index column of numbers."""
        values = self.index.column(name)
        return values if self._rows is None else values[self._rows]

    def values(self, name: str, positions: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the (M,) values of an index column of numbers for samples at ``positions``."""
        return np.asarray(self.index.column(name)[self._to_rows(positions)])

    def samples(self, positions: npt.ArrayLike) -> Samples:
        """Return the index rows of samples at (M,) ``positions``, which locate their payloads."""
        return self.index.samples(self._to_rows(positions))

    def keys(self, positions: npt.ArrayLike) -> list[str]:
        """Return the names of samples in their source."""
        return self.index.keys(self._to_rows(positions))

    def strings(self, name: str, positions: npt.ArrayLike) -> list[str]:
        """Return the values of an index column of strings for samples at ``positions``."""
        return self.index.strings(name, self._to_rows(positions))

    def _to_rows(self, positions: npt.ArrayLike) -> npt.NDArray[np.int64]:
        at = checked_positions(positions, len(self))
        return at if self._rows is None else self._rows[at]
