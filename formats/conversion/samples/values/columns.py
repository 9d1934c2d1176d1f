"""The user's columns of samples from Python: numbers, texts and arrays, typed by the first sample."""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stoker.errors import ConfigError

from ....containers.image_record import StoredArray
from ....dataset.columns import ARRAY_DTYPES, ORIGIN_COLUMNS, array_types
from ....dataset.index import KNOWN_COLUMNS
from ....files import is_unicode

_RESERVED = {"label", "row", "image", "mask", "count", "dataset", "segmentation", "to_source", "source_size"}
_RESERVED |= {*KNOWN_COLUMNS, *ORIGIN_COLUMNS}
_RESERVED_STARTS = ("object_", "mask_")
_KINDS = {"number": "a number", "text": "a text", "array": "an array"}

Value = int | float | str | np.ndarray[Any, Any]


@dataclass(frozen=True)
class ColumnType:
    """The type of a column."""

    kind: Literal["number", "text", "array"]  # Whether values are numbers, texts or arrays
    dtype: str  # NumPy's name of the type of a number or of the elements of an array; "str" for texts
    sides: int = 0  # Number of sides of an array; 0 for numbers and texts

    def __str__(self) -> str:
        if self.kind == "array":
            return f"an array of {self.dtype} with {self.sides} {'side' if self.sides == 1 else 'sides'}"
        return "a text" if self.kind == "text" else f"a number of {self.dtype}"


def check_names(names: Iterable[str]) -> None:
    """Raise ConfigError for a name that a column of a batch or of the index cannot have."""
    names = list(names)
    derived = {column: name for name in names for column in array_types(name)}
    for name in names:
        wrong = None
        if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
            wrong = "is no name that a column of a batch can have"
        elif name in _RESERVED or name.startswith(_RESERVED_STARTS):
            wrong = "is a name that the index uses itself"
        elif name in derived:
            wrong = f"is a name that the index uses for the arrays {derived[name]!r}"
        if wrong:
            raise ConfigError(f"column {name!r} {wrong}", hint="give the column another name")


def column_type(name: str, value: Any, key: str) -> ColumnType:
    """Return the type of a column whose first value is ``value``.

    Python's integers are int64, its floats float64, and True and False uint8; a value of NumPy has its own
    type. A list or a tuple of numbers, and anything that NumPy can make an array of, is an array.
    """
    plain = _plain(name, value, key)
    if isinstance(plain, str):
        return ColumnType("text", "str")
    if plain.ndim == 0:
        return ColumnType("number", "uint8" if plain.dtype == bool else plain.dtype.name)
    return ColumnType("array", plain.dtype.name, plain.ndim)


def _plain(name: str, value: Any, key: str) -> str | npt.NDArray[Any]:
    """A text, or numbers as an array; numbers alone have no side."""
    if isinstance(value, str):
        return value
    try:
        plain = np.asarray(value)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise ConfigError(f"column {name!r} holds no value that can be stored: {error}", key=key) from error
    if plain.dtype.name not in ARRAY_DTYPES:
        kind = "None" if value is None else f"a value of the type {type(value).__name__}"
        inside = f" of {plain.dtype}" if plain.ndim else ""
        raise ConfigError(
            f"column {name!r} holds {kind}{inside}, which cannot be stored",
            key=key,
            hint="a column has a number, a text or an array of numbers in every sample",
        )
    return plain


def store_value(name: str, value: Any, wanted: ColumnType, key: str) -> Value:
    """Return a value as the type of its column; of an array the elements in C order, little-endian."""
    plain = _plain(name, value, key)
    if isinstance(plain, str):
        if wanted.kind == "text" and is_unicode(plain):
            return plain
        raise _misfit(name, "a text" if wanted.kind != "text" else "half of a surrogate pair", wanted, key)
    if wanted.kind == "text" or plain.ndim != wanted.sides:
        raise _misfit(name, str(column_type(name, value, key)), wanted, key)
    target = np.dtype(wanted.dtype)
    if plain.dtype != target and not _keeps_value(plain, target, value):
        raise _misfit(name, _description(plain), wanted, key)
    if wanted.kind == "number":
        number: int | float = plain.astype(target).item()
        return number
    return np.ascontiguousarray(plain, target.newbyteorder("<"))


def _keeps_value(plain: npt.NDArray[Any], target: np.dtype[Any], value: Any) -> bool:
    """Whether numbers keep their values in another type; Python's own take the type of their column."""
    if np.can_cast(plain.dtype, target, "safe"):
        return True
    if type(value) is int and target.kind in "iu":
        return bool(np.iinfo(target).min <= value <= np.iinfo(target).max)
    return type(value) in (int, float) and target.kind == "f"


def _description(plain: npt.NDArray[Any]) -> str:
    if plain.ndim == 0:
        return f"{plain.item()!r}, a number of {plain.dtype}"
    return str(ColumnType("array", plain.dtype.name, plain.ndim))


def _misfit(name: str, description: str, wanted: ColumnType, key: str) -> ConfigError:
    return ConfigError(
        f"column {name!r} holds {description}, and in the first sample {wanted}",
        key=key,
        hint=f"the first sample fixes the type of a column: write {_KINDS[wanted.kind]} of one type in all",
    )


def store_array(name: str, array: npt.NDArray[Any]) -> StoredArray:
    """Return an array of :func:`store_value` as its record has it."""
    return StoredArray(name, array.dtype.name, array.shape, array.tobytes())


def number_column(values: Sequence[Any], column: ColumnType) -> pa.Array:
    """Return a column of the index, (N,), of numbers or texts."""
    if column.kind == "text":
        return pa.array(values, pa.large_string())
    return pa.array(np.array(values, column.dtype))


def types_of(values: Mapping[str, Any], key: str) -> dict[str, ColumnType]:
    """Return the types of the columns of the first sample."""
    check_names(values)
    return {name: column_type(name, value, key) for name, value in values.items()}
