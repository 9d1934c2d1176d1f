"""Columns of an index: lists, numbers, strings, arrays and origins of resized images.

Lists of different lengths are two flat arrays, Arrow's large_list in NumPy. Arrays lie in their records
(docs/decisions/0013): an array column ``NAME`` has four index columns. ``NAME_offset``, ``NAME_length`` and
``NAME_crc`` locate the bytes, as for masks, and ``NAME_shape`` is a list with the sides of each array.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stoker import _native
from stoker.errors import DatasetError

Int64 = npt.NDArray[np.int64]

STRING_TYPE = "large_string"
# Arrow's names of the dtypes that a column of a batch can have.
_BATCHABLE = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_BATCHABLE |= {"halffloat", "float", "double", STRING_TYPE}
_STRINGS_AT_ONCE = 1 << 10


def batchable_columns(types: Mapping[str, str]) -> set[str]:
    """Names of the index columns with a number or a string for each sample, which batches can have."""
    return {name for name, arrow_type in types.items() if arrow_type in _BATCHABLE}


@dataclass(frozen=True, eq=False)
class ListColumn:
    """N lists of numbers."""

    starts: Int64  # (N + 1,) int64, the start of each list in ``values``, and the end of the last one
    values: npt.NDArray[Any]  # (V,) numbers

    def __len__(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def of_counts(cls, counts: npt.ArrayLike, values: npt.NDArray[Any]) -> ListColumn:
        """Return lists that follow each other in ``values``; ``counts``, (N,) integers, has their lengths."""
        return cls(np.concatenate(([0], np.cumsum(counts, dtype=np.int64))), values)

    @classmethod
    def from_arrow(cls, lists: pa.Array) -> ListColumn:
        """View a large_list of numbers with offset 0, as an index has it; nothing is copied."""
        values = lists.values.to_numpy(zero_copy_only=True)
        if not len(lists):
            return cls(np.zeros(1, np.int64), values)
        return cls(np.frombuffer(lists.buffers()[1], np.int64)[: len(lists) + 1], values)

    def to_arrow(self) -> pa.Array:
        return pa.LargeListArray.from_arrays(pa.array(self.starts, pa.int64()), pa.array(self.values))

    @property
    def counts(self) -> Int64:
        return np.diff(self.starts)

    def take(self, rows: npt.ArrayLike) -> ListColumn:
        return take_lists({"": self}, rows)[""]

    def grouped(self, counts: npt.ArrayLike) -> ListColumn:
        """Return M longer lists, joined from ``counts`` consecutive lists each, (M,) integers with sum N."""
        return ListColumn(self.starts[np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))], self.values)


def take_lists(columns: Mapping[str, ListColumn], rows: npt.ArrayLike) -> dict[str, ListColumn]:
    """Return the lists at ``rows`` of several columns, as :meth:`ListColumn.take` does."""
    # Columns with equal starts give results that share one ``starts``. The work is done in C++, because for a
    # batch the calls of NumPy would take longer than the work.
    given = [(column.starts, column.values) for column in columns.values()]
    taken = _native.take_lists(given, np.ascontiguousarray(rows, np.int64))
    return {name: ListColumn(*lists) for name, lists in zip(columns, taken, strict=True)}


def expand_ranges(start: Int64, stop: Int64) -> Int64:
    """Return every integer of M ranges, from ``start`` to below ``stop``, one range after the other."""
    counts = stop - start
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(start - (ends - counts), counts) + np.arange(total, dtype=np.int64)


def renumber(labels: pa.Array, number_of: Int64) -> pa.Array:
    """Return renumbered labels, (N,), one or a list for each sample; ``number_of`` has the new numbers."""
    if not pa.types.is_large_list(labels.type):
        return pa.array(number_of[labels.to_numpy(zero_copy_only=False)])
    lists = ListColumn.from_arrow(labels)
    return ListColumn(lists.starts, number_of[lists.values]).to_arrow()


def number_array(values: npt.NDArray[Any]) -> pa.Array:
    """Return (N,) integers or floats as an Arrow array, without a copy if they are contiguous."""
    # ``pa.array`` would import pandas where it is installed.
    data = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(data.dtype), len(data), [None, pa.py_buffer(data)])


class Strings:
    """A column that grows by one string at a time; each takes its bytes and eight more, not fifty."""

    def __init__(self) -> None:
        self._text = bytearray()
        self._ends = array("q", [0])

    def __len__(self) -> int:
        return len(self._ends) - 1

    def add(self, text: bytes) -> None:
        self._text += text
        self._ends.append(len(self._text))

    def to_arrow(self) -> pa.Array:
        """Return a view of the column as large_string, (N,). Nothing can be added while the view exists."""
        buffers = [None, pa.py_buffer(self._ends), pa.py_buffer(self._text)]
        return pa.Array.from_buffers(pa.large_string(), len(self), buffers)


def take_strings(column: pa.Array, rows: Int64) -> pa.Array:
    """Return the strings at ``rows``, (M,) int64, of a large_string column without nulls."""
    taken = column.take(number_array(rows))
    # Arrow adds a validity bitmap, although nothing is null.
    return pa.Array.from_buffers(taken.type, len(taken), [None, *taken.buffers()[1:]])


def each(column: pa.Array) -> Iterator[str]:
    """Yield the strings of a column; only a few of them are Python objects at a time."""
    for start in range(0, len(column), _STRINGS_AT_ONCE):
        yield from column.slice(start, _STRINGS_AT_ONCE).to_pylist()


ARRAY_DTYPES = (
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *(f"float{bits}" for bits in (16, 32, 64)),
)
"""NumPy's names of the element types of arrays."""

RANGE_TYPES: dict[str, pa.DataType] = {"offset": pa.int64(), "length": pa.int64(), "crc": pa.uint32()}
"""Types of the index columns that locate bytes in a record."""


@dataclass(frozen=True)
class ArrayColumn:
    """The properties that the arrays of a column share."""

    dtype: str  # NumPy's name of their element type, one of :data:`ARRAY_DTYPES`
    shape: tuple[int | None, ...]  # Their sides, one or more; None for a side that differs between samples

    def __post_init__(self) -> None:
        if self.dtype not in ARRAY_DTYPES:
            raise DatasetError(f"the dtype of arrays must be {', '.join(ARRAY_DTYPES)}, found {self.dtype!r}")
        if not self.shape or any(side is not None and not 0 <= side < 1 << 63 for side in self.shape):
            raise DatasetError(f"arrays must have one side or more, each from 0, found {self.shape}")

    @property
    def is_fixed(self) -> bool:
        return None not in self.shape


def range_columns(name: str) -> tuple[str, str, str]:
    """Return the index columns that locate the bytes of an array column."""
    return f"{name}_offset", f"{name}_length", f"{name}_crc"


def shape_column(name: str) -> str:
    """Return the index column with the shapes of an array column."""
    return f"{name}_shape"


def array_types(name: str) -> dict[str, pa.DataType]:
    """Return the index columns of an array column and their types."""
    ranges = dict(zip(range_columns(name), RANGE_TYPES.values(), strict=True))
    return {**ranges, shape_column(name): pa.large_list(pa.int64())}


def check_arrays(arrays: Mapping[str, ArrayColumn], columns: Mapping[str, str]) -> None:
    """Check that an index with columns of these names and types locates all arrays."""
    for name in arrays:
        for column, arrow_type in array_types(name).items():
            if columns.get(column) != str(arrow_type):
                raise DatasetError(f"the arrays {name!r} need an index column {column!r} of {arrow_type}")


def common_shape(shapes: ListColumn) -> tuple[int | None, ...]:
    """Return the sides that one or more shapes of equal lengths share, and None for the other sides."""
    sides = shapes.values.reshape(len(shapes), -1)
    same: npt.NDArray[np.bool_] = (sides == sides[0]).all(axis=0)
    return tuple(int(side) if is_same else None for side, is_same in zip(sides[0], same, strict=True))


def merged_column(columns: Sequence[ArrayColumn]) -> ArrayColumn:
    """Return the properties shared by columns with one dtype and one number of sides."""
    sides = (set(side) for side in zip(*(column.shape for column in columns), strict=True))
    return ArrayColumn(columns[0].dtype, tuple(one.pop() if len(one) == 1 else None for one in sides))


ORIGIN_COLUMNS: dict[str, pa.DataType] = {
    "source_height": pa.int32(),
    "source_width": pa.int32(),
    "source_left": pa.float64(),
    "source_top": pa.float64(),
    "source_scale_x": pa.float64(),
    "source_scale_y": pa.float64(),
}
"""Index columns of images that a conversion has resized.

A point (x, y) of the stored image is (source_left + source_scale_x * x, source_top + source_scale_y * y) in
the image of the source, after its EXIF orientation; in both, edges of pixels are integers."""


class Origin(NamedTuple):
    """The values of :data:`ORIGIN_COLUMNS` for one image."""

    height: int
    width: int
    left: float = 0.0
    top: float = 0.0
    scale_x: float = 1.0
    scale_y: float = 1.0

    def after(self, first: Origin) -> Origin:
        """The origin of an image that was resized twice, the first time with the origin ``first``."""
        left, top = first.left + first.scale_x * self.left, first.top + first.scale_y * self.top
        scales = first.scale_x * self.scale_x, first.scale_y * self.scale_y
        return Origin(first.height, first.width, left, top, *scales)


class Origins(NamedTuple):
    """The way from M stored images back to the images of the source."""

    sizes: Int64  # (M, 2) int64, height and width of the images of the source
    # (M, 3, 3) float64, from (x, y, 1) in a stored image to (x, y, 1) in its source image
    matrices: npt.NDArray[np.float64]


def has_origins(types: Mapping[str, str]) -> bool:
    """Return whether an index with columns of these names and types has all columns of origins."""
    return all(types.get(name) == str(arrow_type) for name, arrow_type in ORIGIN_COLUMNS.items())


def origin_columns(origins: Sequence[Origin]) -> dict[str, pa.Array]:
    """Return the index columns of N origins."""
    table: npt.NDArray[Any] = np.array(origins, np.float64).reshape(-1, len(ORIGIN_COLUMNS))
    return {
        name: pa.array(values).cast(arrow_type)
        for (name, arrow_type), values in zip(ORIGIN_COLUMNS.items(), table.T, strict=True)
    }
