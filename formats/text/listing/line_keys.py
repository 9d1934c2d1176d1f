"""The keys of the lines of text files, ``file:line``, which are made when they are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class LineKeys:
    """A large_string column of N keys that takes no memory. Listings use it as an Arrow array."""

    names: tuple[str, ...]  # Name of each file in the keys
    counts: tuple[int, ...]  # Lines of each file, whose numbers begin at 1

    def __len__(self) -> int:
        return sum(self.counts)

    def __getitem__(self, row: int) -> Any:
        return self.take(np.array([row]))[0]

    def take(self, rows: npt.ArrayLike) -> pa.Array:
        """Return the keys at ``rows``, (M,) integers, as large_string."""
        indices = np.asarray(rows, np.int64)
        file = np.searchsorted(self._ends, indices, side="right")
        lines = indices - self._starts[file] + 1
        names = pa.array(self.names, pa.large_string()).take(pa.array(file))
        numbers = pc.cast(pa.array(lines), pa.large_string())
        return pc.binary_join_element_wise(names, numbers, pa.scalar(":", pa.large_string()))

    def slice(self, start: int, length: int) -> pa.Array:
        """Return the keys of at most ``length`` rows from ``start`` on."""
        return self.take(np.arange(start, min(start + length, len(self))))

    @cached_property
    def _ends(self) -> npt.NDArray[np.int64]:
        return np.cumsum(self.counts, dtype=np.int64)

    @cached_property
    def _starts(self) -> npt.NDArray[np.int64]:
        return self._ends - np.array(self.counts, np.int64)
