"""Writing of sample indexes; :mod:`stoker.formats.dataset.index` describes their form."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from .columns.numbers import number_array
from .index import KNOWN_COLUMNS, REQUIRED_COLUMNS, VERSION_METADATA, Index

_PIECE = 1 << 22  # bytes


def write_index(path: Path, columns: Mapping[str, Any]) -> None:
    """Write an index of N rows."""
    if missing := REQUIRED_COLUMNS.keys() - columns.keys():
        raise ValueError(f"an index needs the columns {', '.join(sorted(missing))}")
    _write(path, {name: _to_arrow(name, values) for name, values in columns.items()})


def _to_arrow(name: str, values: Any) -> pa.Array:
    if isinstance(values, pa.Array) and values.type == KNOWN_COLUMNS.get(name, values.type):
        return values
    if isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
        numbers = number_array(values)
        if numbers.type == KNOWN_COLUMNS.get(name, numbers.type):
            return numbers
    if name in KNOWN_COLUMNS:
        return pa.array(values, KNOWN_COLUMNS[name])
    if isinstance(values, (np.ndarray, pa.Array)):
        return pa.array(values)
    text = bool(len(values)) and isinstance(values[0], str)
    return pa.array(values, pa.large_string() if text else pa.large_list(pa.int64()))


def _write(path: Path, arrays: Mapping[str, pa.Array], maps: Sequence[mmap.mmap] = ()) -> None:
    """Write an index; memory of ``maps``, mapped files, is released as soon as it is written."""
    if any(array.null_count for array in arrays.values()):
        raise ValueError("an index has no null values")
    schema = pa.schema(
        [pa.field(name, array.type, nullable=False) for name, array in arrays.items()],
        metadata=VERSION_METADATA,
    )
    batch = pa.record_batch(list(arrays.values()), schema=schema)
    with (
        path.open("wb", buffering=0) as file,
        pa.PythonFile(_Sink(file, maps), "w") as sink,
        pa.ipc.new_file(sink, schema) as writer,
    ):
        writer.write_batch(batch)


class _Sink:
    """An unbuffered file that Arrow writes; it releases the memory of mapped files that are written to it."""

    closed = False

    def __init__(self, file: IO[bytes], maps: Sequence[mmap.mmap]) -> None:
        self._file = file
        self._maps = maps

    def write(self, data: bytes) -> int:
        """Write bytes in pieces, and release the mapped pages after each piece."""
        view = memoryview(data)
        for start in range(0, len(view), _PIECE):
            piece = view[start : start + _PIECE]
            while piece:
                piece = piece[self._file.write(piece) :]
            for one in self._maps if len(view) >= _PIECE else ():
                one.madvise(mmap.MADV_DONTNEED)
        return len(view)

    def tell(self) -> int:
        """Return the offset in the file."""
        return self._file.tell()

    def flush(self) -> None:
        """Do nothing, as the file has no buffer."""

    def close(self) -> None:
        """Leave the file open, which its owner closes."""
        self.closed = True


def concat_indexes(parts: Sequence[Path], out: Path, more: Mapping[str, pa.Array] | None = None) -> None:
    """Write the rows of several indexes, one after the other, as one index.

    Memory does not grow with the rows, because the columns are gathered in temporary files beside ``out``.

    ``more`` has other columns of all rows, by name.
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
            maps: list[mmap.mmap] = []
            columns = {name: spill.array(maps) for name, spill in zip(schema.names, spills, strict=True)}
            _write(out, {**columns, **(more or {})}, maps)
        finally:
            for spill in spills:
                spill.close()


class _Spill:
    """A column that grows on disk: a file of values and, if rows differ in size, one of their starts."""

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

    def array(self, maps: list[mmap.mmap]) -> pa.Array:
        """Return the whole column, mapped from its files, and add them to ``maps``."""
        self._value_file.flush()
        values = _map(Path(self._value_file.name), maps)
        if not _varies(self._type):
            return pa.Array.from_buffers(self._type, self._rows, [None, values], 0)
        self._start_file.flush()
        starts = _map(Path(self._start_file.name), maps)
        if self._type == pa.large_string():
            return pa.Array.from_buffers(self._type, self._rows, [None, starts, values], 0)
        items = pa.Array.from_buffers(self._type.value_type, self._values, [None, values], 0)
        return pa.Array.from_buffers(self._type, self._rows, [None, starts], 0, children=[items])

    def close(self) -> None:
        self._value_file.close()
        self._start_file.close()


def _varies(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(arrow_type) or pa.types.is_large_list(arrow_type))


def _map(path: Path, maps: list[mmap.mmap]) -> pa.Buffer:
    if path.stat().st_size == 0:
        return pa.py_buffer(b"")
    with path.open("rb") as file:
        maps.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    return pa.py_buffer(maps[-1])
