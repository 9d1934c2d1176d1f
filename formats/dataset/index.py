"""The sample index: one row for each sample, one column for each attribute, in one Arrow record batch.

``index.arrow`` is an Arrow IPC file that pandas, Polars, DuckDB and other programs read. It is memory-mapped:
opening it reads its schema, and the pages of a column are read when they are used, once for all processes of
a machine.

Columns of every index: ``shard`` int32, ``record`` int64, ``offset`` int64, ``length`` int64,
``crc`` uint32, ``key`` large_string. Of images: ``codec`` uint8, ``height`` int32, ``width`` int32,
``orientation`` uint8; :class:`stoker.formats.dataset.samples.Samples` explains them. Usually: ``label``
int64, or large_list<int64> if samples have several labels; and the columns of objects and masks that
:mod:`stoker.formats.dataset.annotation_columns` describes. All other columns are the user's.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from stoker.errors import DatasetError, StaleIndexError

from .annotation_columns import MASK_COLUMNS, OBJECT_COLUMNS
from .list_column import ListColumn
from .samples import Samples

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import IO

    import numpy.typing as npt

__all__ = ["IMAGE_COLUMNS", "REQUIRED_COLUMNS", "Index", "concat_indexes", "write_index"]

VERSION = 1

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
_KNOWN = {**REQUIRED_COLUMNS, **IMAGE_COLUMNS, **OBJECT_COLUMNS, **MASK_COLUMNS}
_VERSION_KEY = b"stoker.index.version"
_HINT = "rebuild the index: stoker convert or stoker index, as the dataset was made"


def write_index(path: Path, columns: Mapping[str, Any]) -> None:
    """Write an index of N rows.

    Args:
        path: The file to write.
        columns: By name, (N,) arrays of numbers, N strings, N lists of integers, or an Arrow array.
            :data:`REQUIRED_COLUMNS` must be among them.

    Raises:
        ValueError: A required column is missing, or the columns differ in length.
    """
    missing = REQUIRED_COLUMNS.keys() - columns.keys()
    if missing:
        raise ValueError(f"an index needs the columns {', '.join(sorted(missing))}")
    arrays = {name: _to_arrow(name, values) for name, values in columns.items()}
    _write(path, arrays)


def _to_arrow(name: str, values: Any) -> pa.Array:
    if name in _KNOWN:
        return pa.array(values, _KNOWN[name])
    if isinstance(values, (np.ndarray, pa.Array)):
        return pa.array(values)
    text = bool(len(values)) and isinstance(values[0], str)
    return pa.array(values, pa.large_string() if text else pa.large_list(pa.int64()))


def _write(path: Path, arrays: Mapping[str, pa.Array]) -> None:
    if any(array.null_count for array in arrays.values()):
        raise ValueError("an index has no null values")
    schema = pa.schema(
        [pa.field(name, array.type, nullable=False) for name, array in arrays.items()],
        metadata={_VERSION_KEY: str(VERSION).encode()},
    )
    batch = pa.record_batch(list(arrays.values()), schema=schema)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(batch)


def concat_indexes(parts: Sequence[Path], out: Path) -> None:
    """Write the rows of several indexes, one after the other, as one index.

    Memory does not grow with the rows: columns are gathered in temporary files beside ``out``, and
    written from there.

    Raises:
        ValueError: There are no parts, or their columns differ.
    """
    if not parts:
        raise ValueError("there is no index to concatenate")
    schema = Index.open(parts[0]).schema
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".columns-") as folder:
        spills = [_Spill(Path(folder), number, field.type) for number, field in enumerate(schema)]
        try:
            for part in parts:
                index = Index.open(part)
                if index.schema != schema:
                    raise ValueError(f"{part} has other columns than {parts[0]}")
                for spill, name in zip(spills, schema.names, strict=True):
                    spill.append(index.arrow(name))
            _write(out, {name: spill.array() for name, spill in zip(schema.names, spills, strict=True)})
        finally:
            for spill in spills:
                spill.close()


class _Spill:
    """A column that grows on disk: its values, and the start of each row if rows differ in size."""

    def __init__(self, folder: Path, number: int, arrow_type: pa.DataType) -> None:
        self._type = arrow_type
        self._rows = 0
        self._values = 0
        self._value_file: IO[bytes] = (folder / f"{number}.values").open("xb")
        self._start_file: IO[bytes] = (folder / f"{number}.starts").open("xb")
        if _varies(arrow_type):
            self._start_file.write(np.int64(0).tobytes())

    def append(self, array: pa.Array) -> None:
        """Add the rows of a part, an array from a file, without nulls and with offset 0."""
        if _varies(self._type):
            starts = np.frombuffer(array.buffers()[1], np.int64)[: len(array) + 1]
            self._start_file.write((starts[1:] + self._values).data)
            self._values += int(starts[-1])
            values = array.buffers()[-1] or b""
            size = 1 if self._type == pa.large_string() else array.values.type.bit_width // 8
            self._value_file.write(memoryview(values)[: int(starts[-1]) * size])
        else:
            self._value_file.write(array.to_numpy(zero_copy_only=True).data)
        self._rows += len(array)

    def array(self) -> pa.Array:
        """Return the whole column, mapped from its files."""
        self._value_file.flush()
        values = _map(Path(self._value_file.name))
        if not _varies(self._type):
            return pa.Array.from_buffers(self._type, self._rows, [None, values], 0)
        self._start_file.flush()
        starts = _map(Path(self._start_file.name))
        if self._type == pa.large_string():
            return pa.Array.from_buffers(self._type, self._rows, [None, starts, values], 0)
        items = pa.Array.from_buffers(self._type.value_type, self._values, [None, values], 0)
        return pa.Array.from_buffers(self._type, self._rows, [None, starts], 0, children=[items])

    def close(self) -> None:
        self._value_file.close()
        self._start_file.close()


def _varies(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(arrow_type) or pa.types.is_large_list(arrow_type))


def _map(path: Path) -> pa.Buffer:
    if path.stat().st_size == 0:
        return pa.py_buffer(b"")
    with pa.memory_map(str(path)) as source:
        return source.read_buffer()


class Index:
    """An index, memory-mapped. The arrays that it returns are read-only views of the file.

    Attributes:
        path: The file.
        schema: Names and Arrow types of its columns.
    """

    def __init__(self, batch: pa.RecordBatch, path: Path) -> None:
        self._batch = batch
        self.path = path
        self._numbers: dict[str, npt.NDArray[Any]] = {}
        self._lists: dict[str, ListColumn] = {}
        self.schema: pa.Schema = batch.schema

    @classmethod
    def open(cls, path: Path) -> Index:
        """Map an index and check its schema; no column is read.

        Raises:
            StaleIndexError: The index is missing, damaged, or of another version.
        """
        try:
            with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
                if reader.num_record_batches != 1:
                    raise StaleIndexError(
                        f"the index has {reader.num_record_batches} record batches, not one",
                        path=path,
                        hint=_HINT,
                    )
                batch = reader.get_batch(0)
            batch.validate()
            _check_schema(batch.schema, path)
        except FileNotFoundError as error:
            raise StaleIndexError("the index is missing", path=path, hint=_HINT) from error
        # UnicodeError: the name of a column is damaged, or the path is not UTF-8.
        except (pa.ArrowException, OSError, UnicodeError) as error:
            raise StaleIndexError(f"the index cannot be read: {error}", path=path, hint=_HINT) from error
        # A validity bitmap may contradict the count of nulls; no column of a sound index has one.
        if any(column.null_count or column.buffers()[0] is not None for column in batch.columns):
            raise StaleIndexError("the index has null values", path=path, hint=_HINT)
        return cls(batch, path)

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    @property
    def types(self) -> dict[str, str]:
        """Name and type of every column, as manifests state them."""
        return {field.name: str(field.type) for field in self.schema}

    def arrow(self, name: str) -> pa.Array:
        """Return a column as an Arrow array.

        Raises:
            DatasetError: There is no such column.
        """
        if name not in self.schema.names:
            raise DatasetError(
                f"the index has no column {name!r}",
                path=self.path,
                hint=f"it has {', '.join(self.schema.names)}",
            )
        return self._batch.column(self.schema.get_field_index(name))

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a column of numbers, (N,), without a copy.

        Raises:
            DatasetError: There is no such column, or it does not hold numbers.
        """
        if name not in self._numbers:
            values = self.arrow(name)
            if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
                raise DatasetError(
                    f"the index column {name!r} holds {values.type}, not numbers", path=self.path
                )
            self._numbers[name] = np.asarray(values.to_numpy(zero_copy_only=True))
        return self._numbers[name]

    def lists(self, name: str) -> ListColumn:
        """Return a column of lists of numbers, without a copy.

        Raises:
            DatasetError: There is no such column.
        """
        if name not in self._lists:
            self._lists[name] = ListColumn.from_arrow(self.arrow(name))
        return self._lists[name]

    def samples(self, rows: npt.ArrayLike) -> Samples:
        """Return rows of the columns that locate payloads and describe images.

        Args:
            rows: (M,) integers, each from 0 to the number of rows less one.
        """
        at = np.asarray(rows, np.int64)
        names = ("shard", "record", "offset", "length", "crc", "codec", "height", "width", "orientation")
        return Samples(row=at, **{name: self.column(name)[at] for name in names})

    def keys(self, rows: npt.ArrayLike) -> list[str]:
        """Return the names of these rows in their source.

        Raises:
            StaleIndexError: A name lies beyond the column, because the index is damaged.
        """
        starts, text = self._strings("key")
        keys = []
        for row in np.asarray(rows, np.int64):
            start, end = int(starts[row]), int(starts[row + 1])
            if not 0 <= start <= end <= len(text):
                raise StaleIndexError(f"the key of row {row} is out of bounds", path=self.path, hint=_HINT)
            keys.append(bytes(text[start:end]).decode(errors="backslashreplace"))
        return keys

    def _strings(self, name: str) -> tuple[npt.NDArray[np.int64], memoryview]:
        _, starts, text = self.arrow(name).buffers()
        return np.frombuffer(starts, np.int64)[: len(self) + 1], memoryview(text or b"")


def _check_schema(schema: pa.Schema, path: Path) -> None:
    version = (schema.metadata or {}).get(_VERSION_KEY)
    if version != str(VERSION).encode():
        raise StaleIndexError(f"the index has version {version!r}, not {VERSION}", path=path, hint=_HINT)
    for name in REQUIRED_COLUMNS:
        if name not in schema.names:
            raise StaleIndexError(f"the index has no column {name!r}", path=path, hint=_HINT)
    if len(set(schema.names)) != len(schema.names):
        raise StaleIndexError("two columns of the index have the same name", path=path, hint=_HINT)
    for field in schema:
        if field.type != _KNOWN.get(field.name, field.type):
            raise StaleIndexError(
                f"the index column {field.name!r} is {field.type}, not {_KNOWN[field.name]}",
                path=path,
                hint=_HINT,
            )
