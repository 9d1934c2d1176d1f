"""The sample index: one row for each sample, one column for each attribute, in one Arrow record batch.

``index.arrow`` is an Arrow IPC file that pandas, Polars, DuckDB and other programs read. It is memory-mapped:
opening it reads its schema, and a page of a column is read when it is first used, once for all processes of a
machine.

Columns of every index: ``shard`` int32, ``record`` int64, ``offset`` int64, ``length`` int64,
``crc`` uint32, ``key`` large_string. Of images: ``codec`` uint8, ``height`` int32, ``width`` int32,
``orientation`` uint8; :class:`.reading.samples.Samples` explains them. Usually: ``label``
int64, or large_list<int64> if samples have several labels; and the columns of objects and masks that
:mod:`stoker.formats.dataset.columns.annotation_columns` describes. Where JPEGs have restart markers:
``jpeg_bands`` large_list<uint32>, the first byte and the CRC32C of the headers and of each band of rows. All
other columns are the user's.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stoker.errors import DatasetError, StaleIndexError

from .arrow_file import is_compressed
from .columns.annotation_columns import MASK_COLUMNS, OBJECT_COLUMNS
from .columns.list_column import ListColumn
from .reading.samples import Samples

REQUIRED_COLUMNS: dict[str, pa.DataType] = {
    "shard": pa.int32(),
    "record": pa.int64(),
    "offset": pa.int64(),
    "length": pa.int64(),
    "crc": pa.uint32(),
    "key": pa.large_string(),
}
IMAGE_COLUMNS: dict[str, pa.DataType] = {
    "codec": pa.uint8(),
    "height": pa.int32(),
    "width": pa.int32(),
    "orientation": pa.uint8(),
}
BAND_COLUMNS: dict[str, pa.DataType] = {"jpeg_bands": pa.large_list(pa.uint32())}
KNOWN_COLUMNS = {**REQUIRED_COLUMNS, **IMAGE_COLUMNS, **BAND_COLUMNS, **OBJECT_COLUMNS, **MASK_COLUMNS}
MOST_BAND_NUMBERS = 130
"""Most numbers in a row: two for each of 64 bands, and two for the headers."""
_VERSION = b"1"
_VERSION_KEY = b"stoker.index.version"
VERSION_METADATA = {_VERSION_KEY: _VERSION}
"""Metadata of the schema of every index."""
_HINT = "rebuild the index: stoker convert or stoker index, as the dataset was made"


class Index:
    """An index, memory-mapped. The arrays that it returns are read-only views of the file."""

    def __init__(self, batch: pa.RecordBatch, path: Path) -> None:
        self._batch = batch
        self.path = path
        self._numbers: dict[str, npt.NDArray[Any]] = {}
        self._lists: dict[str, ListColumn] = {}
        self.schema: pa.Schema = batch.schema

    @classmethod
    def open(cls, path: Path) -> Index:
        """Map an index and check its schema; no column is read."""
        stale = partial(StaleIndexError, path=path, hint=_HINT)
        try:
            with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
                if reader.num_record_batches != 1:
                    raise stale(f"the index has {reader.num_record_batches} record batches, not one")
                if is_compressed(source):  # a few kilobytes could hold gigabytes
                    raise stale("the index is compressed or has dictionaries")
                batch = reader.get_batch(0)
            batch.validate()
            _check_schema(batch.schema, path)
        except FileNotFoundError as error:
            raise stale("the index is missing") from error
        # UnicodeError: the name of a column is damaged, or the path is not UTF-8.
        except (pa.ArrowException, OSError, UnicodeError, struct.error) as error:
            raise stale(f"the index cannot be read: {error}") from error
        for column in batch.columns:
            if message := _damage(column):
                raise stale(message)
        return cls(batch, path)

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    @property
    def types(self) -> dict[str, str]:
        """Name and type of every column, as manifests state them."""
        return {field.name: str(field.type) for field in self.schema}

    def arrow(self, name: str) -> pa.Array:
        """Return a column as an Arrow array."""
        if name not in self.schema.names:
            raise DatasetError(
                f"the index has no column {name!r}",
                path=self.path,
                hint=f"it has {', '.join(self.schema.names)}",
            )
        return self._batch.column(self.schema.get_field_index(name))

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a column of numbers, (N,), without a copy."""
        if name not in self._numbers:
            values = self.arrow(name)
            if not _is_number(values.type):
                raise DatasetError(
                    f"the index column {name!r} holds {values.type}, not numbers", path=self.path
                )
            self._numbers[name] = np.asarray(values.to_numpy(zero_copy_only=True))
        return self._numbers[name]

    def lists(self, name: str) -> ListColumn:
        """Return a column of lists of numbers, without a copy."""
        if name not in self._lists:
            lists = self.arrow(name)
            if not (pa.types.is_large_list(lists.type) and _is_number(lists.type.value_type)):
                raise DatasetError(
                    f"the index column {name!r} holds {lists.type}, not lists of numbers", path=self.path
                )
            self._lists[name] = ListColumn.from_arrow(lists)
        return self._lists[name]

    def samples(self, rows: npt.ArrayLike) -> Samples:
        """Return rows, (M,) integers, of the columns that locate payloads and describe images."""
        at = np.asarray(rows, np.int64)
        names = ("shard", "record", "offset", "length", "crc", "codec", "height", "width", "orientation")
        columns = {name: self.column(name)[at] for name in names}
        samples = Samples(row=at, **columns, bands=self.bands(at))
        self._check_sizes(samples.height, samples.width, at)
        return samples

    def bands(self, rows: npt.ArrayLike) -> npt.NDArray[np.uint32] | None:
        """Return rows of the column of bands, see :class:`.samples.Samples`; None if there is none."""
        (name,) = BAND_COLUMNS
        if name not in self.schema.names:
            return None
        try:
            lists = self.lists(name).take(rows)
        except ValueError as error:
            raise StaleIndexError(f"the bands in the index are damaged: {error}", path=self.path) from error
        width = int(lists.counts.max(initial=0))
        if width > MOST_BAND_NUMBERS:
            raise StaleIndexError(
                f"a row of the index has {width} numbers of bands", path=self.path, hint=_HINT
            )
        table = np.zeros((len(lists), width), np.uint32)
        table[np.arange(width) < lists.counts[:, None]] = lists.values
        return table

    def check_sizes(self) -> None:
        """Check that every image has pixels; two columns are read."""
        self._check_sizes(self.column("height"), self.column("width"), range(len(self)))

    def _check_sizes(
        self,
        heights: npt.NDArray[np.int32],
        widths: npt.NDArray[np.int32],
        rows: Sequence[int] | npt.NDArray[np.int64],
    ) -> None:
        if min(heights.min(initial=1), widths.min(initial=1)) < 1:
            at = int(np.flatnonzero((heights < 1) | (widths < 1))[0])
            raise StaleIndexError(
                f"the image of row {rows[at]} has {heights[at]} x {widths[at]} pixels in the index",
                path=self.path,
                hint=_HINT,
            )

    def keys(self, rows: npt.ArrayLike) -> list[str]:
        """Return the names of these rows in their source; see :meth:`strings`."""
        return self.strings("key", rows)

    def strings(self, name: str, rows: npt.ArrayLike) -> list[str]:
        """Return rows of a column of strings."""
        starts, text = self._strings(name)
        strings = []
        for row in np.asarray(rows, np.int64):
            start, end = int(starts[row]), int(starts[row + 1])
            if not 0 <= start <= end <= len(text):
                raise StaleIndexError(f"the {name} of row {row} is out of bounds", path=self.path, hint=_HINT)
            strings.append(bytes(text[start:end]).decode(errors="backslashreplace"))
        return strings

    def _strings(self, name: str) -> tuple[npt.NDArray[np.int64], memoryview]:
        column = self.arrow(name)
        if column.type != pa.large_string():
            raise DatasetError(f"the index column {name!r} holds {column.type}, not strings", path=self.path)
        _, starts, text = column.buffers()
        return np.frombuffer(starts, np.int64)[: len(self) + 1], memoryview(text or b"")


def _is_number(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type))


def _damage(column: pa.Array) -> str | None:
    """Return the problem of a column's buffers, which PyArrow does not check; None if there is none."""
    parts = [column]
    if pa.types.is_large_list(column.type) or pa.types.is_large_string(column.type):
        starts = column.buffers()[1]
        if starts is not None and starts.size % 8:
            return "the index has starts that are no integers of 64 bits"
        parts += [column.values] if pa.types.is_large_list(column.type) else []
    # A validity bitmap may contradict the count of nulls; no column of a sound index has one.
    if any(part.null_count or part.buffers()[0] is not None for part in parts):
        return "the index has null values"
    return None


def _check_schema(schema: pa.Schema, path: Path) -> None:
    stale = partial(StaleIndexError, path=path, hint=_HINT)
    version = (schema.metadata or {}).get(_VERSION_KEY)
    if version != _VERSION:
        raise stale(f"the index has version {version!r}, not {_VERSION.decode()}")
    for name in REQUIRED_COLUMNS:
        if name not in schema.names:
            raise stale(f"the index has no column {name!r}")
    if len(set(schema.names)) != len(schema.names):
        raise stale("two columns of the index have the same name")
    for field in schema:
        if field.type != KNOWN_COLUMNS.get(field.name, field.type):
            raise stale(f"the index column {field.name!r} is {field.type}, not {KNOWN_COLUMNS[field.name]}")
