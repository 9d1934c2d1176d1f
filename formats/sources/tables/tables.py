"""Parquet and Arrow tables as a source: a row is a sample, and its image stays in its block until it is read.

Listing reads the labels and values of all rows, and no image. So the size of an image is an estimate, the
mean of its block.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stoker.errors import SourceError

from ...threads import bounded_map
from ..listing import ListedBlocks, Listing, Skip
from ..source import Source
from .table_columns import TableColumns, find_columns
from .table_files import TableFile, find_tables, open_table
from .table_values import key_column, label_column, value_column

Rows = npt.NDArray[np.int64]

_CONCURRENT = 16  # files that are opened at a time, which at URLs take several requests each


def list_table(source: Source) -> Listing:
    """List the rows of tables, in the order of the files and of their rows."""
    files = find_tables(source)
    with ThreadPoolExecutor(_CONCURRENT, thread_name_prefix="stoker-table") as pool:
        opened = bounded_map(pool, ((file, partial(open_table, file)) for file in files), _CONCURRENT)
        tables = [table for _, table in opened]
        if not any(sum(table.rows) for table in tables):
            raise SourceError("the table has no rows", path=source.path, hint="name a table with samples")
        columns = find_columns(tables, source.parts)
        parts = _read_listed(pool, tables, columns)
    root = os.path.commonpath([os.path.dirname(file) for file in files]) if len(files) > 1 else ""  # noqa: PTH120 - may be URLs
    keys = _keys(files, tables, columns, parts, root)
    listing = _listing(tables, columns, parts, keys)
    return _labelled(listing, columns, parts, source)


def _read_listed(
    pool: ThreadPoolExecutor, tables: list[TableFile], columns: TableColumns
) -> dict[str, pa.ChunkedArray]:
    """Return the columns of all rows that are read before any image."""
    if not columns.listed:
        return {}
    tasks = ((table, partial(table.read, columns.listed)) for table in tables)
    whole = pa.concat_tables([read for _, read in bounded_map(pool, tasks, _CONCURRENT)])
    return {name: whole.column(name) for name in columns.listed}


def _keys(
    files: list[str],
    tables: list[TableFile],
    columns: TableColumns,
    parts: dict[str, pa.ChunkedArray],
    root: str,
) -> pa.Array:
    """Return the names of the samples: those of the table, or file and row."""
    numbered = []
    for file, table in zip(files, tables, strict=True):
        name = file[len(root) :].lstrip("/") if root else file.rpartition("/")[2]
        numbered.append(key_column(name.rpartition(".")[0], sum(table.rows)))
    keys = pa.chunked_array(numbered, pa.large_string())
    if columns.key is not None:
        keys = pc.coalesce(parts[columns.key].cast(pa.large_string()), keys)
    return keys.combine_chunks()


def _listing(
    tables: list[TableFile], columns: TableColumns, parts: dict[str, pa.ChunkedArray], keys: pa.Array
) -> Listing:
    """Return the listing of all rows, without labels."""
    blocks = [len(table.rows) for table in tables]
    file_of_block = np.repeat(np.arange(len(tables)), blocks)
    counts = np.array([count for table in tables for count in table.rows], np.int64)
    means = np.array(
        [
            _image_bytes(stated, columns.image) // max(count, 1)
            for table in tables
            for count, stated in zip(table.rows, table.bytes, strict=True)
        ],
        np.int64,
    )
    number = np.concatenate([np.arange(count) for count in blocks])
    first = np.cumsum(counts) - counts
    file = np.repeat(file_of_block, counts).astype(np.int32)
    listed_blocks = ListedBlocks(
        tuple(table.path for table in tables),
        tuple(table.size for table in tables),
        columns.image,
        file,
        np.repeat(number, counts).astype(np.int32),
        (np.arange(len(keys)) - np.repeat(first, counts)).astype(np.int32),
    )
    values = {new: value_column(parts[name]) for name, new in columns.values.items()}
    return Listing(
        tables[0].path.rpartition("/")[0],
        keys,
        np.repeat(np.maximum(means, 1), counts),
        np.array([table.modified for table in tables], np.int64)[file],
        labels=None,
        classes=(),
        columns={name: array for name, array in values.items() if array is not None},
        blocks=listed_blocks,
    )


def _image_bytes(stated: dict[str, int], image: str) -> int:
    return sum(size for name, size in stated.items() if name in (image, f"{image}.bytes"))


def _labelled(
    listing: Listing, columns: TableColumns, parts: dict[str, pa.ChunkedArray], source: Source
) -> Listing:
    """Return the listing with its labels, without the rows that have none; all rows where none has one."""
    if columns.label is None:
        return listing
    labels, classes = label_column(parts[columns.label], columns, source.path)
    known = np.asarray(labels.is_valid().to_numpy(zero_copy_only=False), bool)
    if not known.any():
        return listing
    missing = [Skip(key, "row without a label") for key in listing.keys.filter(pa.array(~known)).to_pylist()]
    rows: Rows = np.flatnonzero(known)
    kept = listing.take(rows) if missing else listing
    return replace(kept, labels=labels.take(pa.array(rows)), classes=classes, skipped=tuple(missing))
