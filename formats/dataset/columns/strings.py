"""Columns of strings without Python objects, which would take fifty more bytes for each string."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .numbers import number_array

_AT_ONCE = 1 << 10


class Strings:
    """A column that grows by one string at a time; each takes its bytes and eight more."""

    def __init__(self) -> None:
        self._text = bytearray()
        self._ends = array("q", [0])

    def __len__(self) -> int:
        return len(self._ends) - 1

    def add(self, text: bytes) -> None:
        """Add a string, in UTF-8."""
        self._text += text
        self._ends.append(len(self._text))

    def to_arrow(self) -> pa.Array:
        """Return a view of the column as large_string, (N,). Nothing can be added while the view exists."""
        buffers = [None, pa.py_buffer(self._ends), pa.py_buffer(self._text)]
        return pa.Array.from_buffers(pa.large_string(), len(self), buffers)


def take_strings(column: pa.Array, rows: npt.NDArray[np.int64]) -> pa.Array:
    """Return the strings at ``rows``, (M,) int64, of a large_string column without nulls."""
    taken = column.take(number_array(rows))
    # Arrow adds a validity bitmap, although nothing is null.
    return pa.Array.from_buffers(taken.type, len(taken), [None, *taken.buffers()[1:]])


def each(column: pa.Array) -> Iterator[str]:
    """Yield the strings of a column; only a few of them are Python objects at a time."""
    for start in range(0, len(column), _AT_ONCE):
        yield from column.slice(start, _AT_ONCE).to_pylist()
