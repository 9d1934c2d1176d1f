"""Keys, labels and values of the rows of a table, as a listing has them: without nulls, in a few types."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stoker.errors import SourceError

from ...dataset.columns import each
from .table_columns import TableColumns, holds_texts

_DIGITS = 8  # of the number of a row in its key


def key_column(name: str, rows: int) -> pa.Array:
    """Return the keys of the rows of a file, (N,) large_string: its name and their numbers."""
    numbers = pc.utf8_lpad(pa.array(np.arange(rows)).cast(pa.large_string()), _DIGITS, "0")
    prefix = pa.scalar(f"{name}/", pa.large_string())
    return pc.binary_join_element_wise(prefix, numbers, pa.scalar("", pa.large_string()))


def value_column(values: pa.ChunkedArray) -> pa.Array | None:
    """Return a column of the index: NaN for a missing number, an empty text for a missing one.

    A list of texts becomes JSON.
    """
    # -> (N,)
    kind = values.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        values = values.cast(kind)
    if values.null_count == len(values):
        return None
    if holds_texts(kind):
        lists = (json.dumps(some, ensure_ascii=False) if some else "" for some in each(values))
        return pa.array(lists, pa.large_string())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return values.cast(pa.large_string()).fill_null("").combine_chunks()
    if pa.types.is_boolean(kind):
        values, kind = values.cast(pa.uint8()), pa.uint8()
    if values.null_count:
        number = kind if pa.types.is_floating(kind) else pa.float64()
        values = values.cast(number, safe=False).fill_null(pa.scalar(np.nan, number))
    return values.combine_chunks()


def label_column(
    values: pa.ChunkedArray, columns: TableColumns, source: Any
) -> tuple[pa.Array, tuple[str, ...]]:
    """Return the labels of the rows, and the names of the classes.

    Names are numbered in sorted order. If the table names classes, -1 stands for a missing label, as in
    Hugging Face's datasets.
    """
    # -> (N,) int64
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    array = values.combine_chunks()
    if not pa.types.is_list(array.type) and not pa.types.is_large_list(array.type):
        numbers, classes = _numbered(array, columns, source)
        if columns.classes:
            numbers = pc.if_else(pc.equal(numbers, -1), pa.scalar(None, pa.int64()), numbers)
        _check(numbers, columns, source)
        return numbers, classes
    lists = array.cast(pa.large_list(array.type.value_type))
    numbers, classes = _numbered(lists.flatten(), columns, source)
    _check(numbers, columns, source)
    if numbers.null_count:
        raise _bad(columns, "a list of labels has a missing one", source)
    counts = np.asarray(pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False), np.int64)
    starts = pa.array(np.concatenate(([0], np.cumsum(counts))))
    mask = pa.array(lists.is_null().to_numpy(zero_copy_only=False)) if lists.null_count else None
    return pa.LargeListArray.from_arrays(starts, numbers, mask=mask), classes


def _numbered(array: pa.Array, columns: TableColumns, source: Any) -> tuple[pa.Array, tuple[str, ...]]:
    """Return labels as numbers, (N,) int64, and the names of their classes."""
    kind = array.type
    if pa.types.is_boolean(kind):
        return array.cast(pa.uint8()).cast(pa.int64()), columns.classes
    if pa.types.is_integer(kind):
        return array.cast(pa.int64()), columns.classes
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        text = array.cast(pa.large_string())
        names = sorted(name for name in pc.unique(text).to_pylist() if name is not None)
        return pc.index_in(text, value_set=pa.array(names, pa.large_string())).cast(pa.int64()), tuple(names)
    raise _bad(columns, f"the labels are {kind}, neither whole numbers nor texts", source)


def _check(numbers: pa.Array, columns: TableColumns, source: Any) -> None:
    limits = pc.min_max(numbers).as_py()
    low, high = limits["min"], limits["max"]
    if columns.classes and low is not None and not 0 <= low <= high < len(columns.classes):
        wrong = low if low < 0 else high
        message = f"a row has label {wrong}, and the table names {len(columns.classes)} classes"
        raise _bad(columns, message, source)


def _bad(columns: TableColumns, message: str, source: Any) -> SourceError:
    return SourceError(
        f"column {columns.label!r} holds no classes: {message}",
        path=source,
        hint="name another column with --label NAME (fields={'NAME': 'label'}), or none with --label ''",
    )
