"""Columns of arrays, which lie in their records and are located by the index (docs/decisions/0013).

An array column ``NAME`` has four columns in the index: ``NAME_offset``, ``NAME_length`` and ``NAME_crc``
locate the bytes, as for masks, and ``NAME_shape`` is a list with the sides of each array. The manifest has
the dtype and the sides that all arrays share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stoker.errors import DatasetError

from .list_column import ListColumn

ARRAY_DTYPES = (
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *(f"float{bits}" for bits in (16, 32, 64)),
)
"""NumPy's names of the element types of arrays."""

RANGE_TYPES: dict[str, pa.DataType] = {"offset": pa.int64(), "length": pa.int64(), "crc": pa.uint32()}
"""Types of the index columns that locate bytes in a record."""

_SHAPE_TYPE = pa.large_list(pa.int64())


@dataclass(frozen=True)
class ArrayColumn:
    """The properties that the arrays of a column share."""

    dtype: str  # NumPy's name of their element type, one of :data:`ARRAY_DTYPES`
    shape: tuple[int | None, ...]  # Their sides, one or more; None for a side that differs between samples

    def __post_init__(self) -> None:
        if self.dtype not in ARRAY_DTYPES:
            raise DatasetError(f"arrays have a dtype of {', '.join(ARRAY_DTYPES)}, not {self.dtype!r}")
        if not self.shape or any(side is not None and side < 0 for side in self.shape):
            raise DatasetError(f"arrays have one side or more, each from 0, not the shape {self.shape}")

    @property
    def is_fixed(self) -> bool:
        """Whether all arrays have one shape."""
        return None not in self.shape


def range_columns(name: str) -> tuple[str, str, str]:
    """Return the index columns of offset, length and checksum of an array column."""
    return f"{name}_offset", f"{name}_length", f"{name}_crc"


def shape_column(name: str) -> str:
    """Return the index column with the shapes of an array column."""
    return f"{name}_shape"


def array_types(name: str) -> dict[str, pa.DataType]:
    """Return the index columns of an array column and their types."""
    return {
        **dict(zip(range_columns(name), RANGE_TYPES.values(), strict=True)),
        shape_column(name): _SHAPE_TYPE,
    }


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
