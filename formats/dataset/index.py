"""The sample index: one row for each sample, one column for each attribute, in one Arrow record batch.

``index.arrow`` is an Arrow IPC file that pandas, Polars, DuckDB and other programs read. It is memory-mapped:
opening it reads its schema, and a page of a column is read when it is first used, once for all processes of a
machine.

Columns of every index: ``shard`` int32, ``record`` int64, ``offset`` int64, ``length`` int64,
``crc`` uint32, ``key`` large_string. Of images: ``codec`` uint8, ``height`` int32, ``width`` int32,
``orientation`` uint8; :class:`Samples` explains them. Usually: ``label`` int64, or large_list<int64> if
samples have several labels; and the columns of objects and masks that
:mod:`stoker.formats.dataset.annotations` describes. Where JPEGs have restart markers: ``jpeg_bands``
large_list<uint32>, the first byte and the CRC32C of the headers and of each band of rows. All other columns
are the user's.
"""

from __future__ import annotations

import mmap
import struct
import tempfile
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stoker.errors import DatasetError, StaleIndexError

from ..files import file_digest, is_of_machine, open_regular, reason_of, storage_error, sync
from .annotations import MASK_COLUMNS, OBJECT_COLUMNS
from .columns import ORIGIN_COLUMNS, ArrayColumn, ListColumn, number_array, shape_column
from .manifest import Manifest

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
_RESERVED = {"label", "row", "image", "mask", "count", "dataset", "segmentation", "to_source", "source_size"}
_RESERVED |= {*KNOWN_COLUMNS, *ORIGIN_COLUMNS}
NO_CHECKSUM = 0
"""The ``crc`` of a payload that was not read for its index; readers do not compare it."""

_MOST_BAND_NUMBERS = 130  # in a row: two for each of 64 bands, and two for the headers
_VERSION_KEY, _VERSION = b"stoker.index.version", b"1"
_SMALL_INDEX = 64 << 20  # about a million samples, read in some ten milliseconds
_PIECE = 1 << 22  # bytes
_HINT = "Make the index again with stoker convert or stoker index, as the dataset was made."


def is_reserved(name: str) -> bool:
    """Return whether a dataset uses the name of a column itself."""
    return name in _RESERVED or name.startswith(("object_", "mask_"))


def free_name(name: str, others: Container[str] = ()) -> str:
    """Return the name in the dataset of a source's column: a ``_`` follows a name that is reserved."""
    # ``others`` are the source's columns, which keep their names.
    free = f"{name}_" if is_reserved(name) else name
    while free != name and free in others:
        free += "_"
    return free


@dataclass(frozen=True)
class Samples:
    """N rows of the index, as columns, which an engine needs to read and decode payloads."""

    row: npt.NDArray[np.int64]  # (N,) int64, row of the sample in the index
    shard: npt.NDArray[np.int32]  # (N,) int32, index of its shard in the manifest
    record: npt.NDArray[np.int64]  # (N,) int64, number of the record in the shard
    offset: npt.NDArray[np.int64]  # (N,) int64, first byte of the payload in the shard's data file
    length: npt.NDArray[np.int64]  # (N,) int64, bytes of the payload
    # (N,) uint32, CRC32C (Castagnoli, RFC 3720, not masked) of the payload, or :data:`NO_CHECKSUM`
    crc: npt.NDArray[np.uint32]
    codec: npt.NDArray[np.uint8]  # (N,) uint8, see :class:`stoker.formats.codecs.codec.Codec`
    height: npt.NDArray[np.int32]  # (N,) int32, pixels, after the EXIF orientation has been applied
    width: npt.NDArray[np.int32]  # (N,) int32, pixels, after the EXIF orientation has been applied
    # (N,) uint8, EXIF orientation of the stored image, 1 to 8; 1 if it has none
    orientation: npt.NDArray[np.uint8]
    # (N, W) uint32, the lists of the index column ``jpeg_bands``, padded with zeros
    bands: npt.NDArray[np.uint32] | None = None

    def __len__(self) -> int:
        return len(self.row)

    def take(self, at: npt.NDArray[np.int64] | slice) -> Samples:
        """Return the rows at ``at``: (M,) int64, which may repeat, or successive ones."""
        columns = {one.name: getattr(self, one.name) for one in fields(self)}
        taken: dict[str, Any] = {n: None if values is None else values[at] for n, values in columns.items()}
        return Samples(**taken)


class Index:
    """An index, memory-mapped. The arrays that it returns are read-only views of the file."""

    def __init__(self, batch: pa.RecordBatch, path: Path) -> None:
        self._batch = batch
        self.path = path
        self._numbers: dict[str, npt.NDArray[Any]] = {}
        self._lists: dict[str, ListColumn] = {}
        self._label_count: int | None = None
        self.schema: pa.Schema = batch.schema

    @classmethod
    def open(cls, path: Path) -> Index:
        """Map an index and check its schema; no column is read."""
        stale = partial(StaleIndexError, path=path, hint=_HINT)
        try:
            with open_regular(path), pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
                if reader.num_record_batches != 1:
                    raise stale(f"the index has {reader.num_record_batches} record batches, not one")
                if _is_compressed(source):  # a few kilobytes could hold gigabytes
                    raise stale("the index is compressed or has dictionaries")
                batch = reader.get_batch(0)
            batch.validate()
            problem = _schema_problem(batch.schema)
        except FileNotFoundError as error:
            raise stale("the index is missing") from error
        # UnicodeError: the name of a column is damaged, or the path is not UTF-8.
        except (pa.ArrowException, OSError, UnicodeError, struct.error) as error:
            if is_of_machine(reason := reason_of(error)):
                raise storage_error(reason, path, hint="Make the index readable.") from error
            raise stale(f"the index cannot be read: {error}") from error
        for message in (problem, *map(_buffer_problem, batch.columns)):
            if message:
                raise stale(message)
        return cls(batch, path)

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    @property
    def types(self) -> dict[str, str]:
        return {field.name: str(field.type) for field in self.schema}

    def arrow(self, name: str) -> pa.Array:
        if name not in self.schema.names:
            hint = f"It has {', '.join(self.schema.names)}."
            raise DatasetError(f"the index has no column {name!r}", path=self.path, hint=hint)
        return self._batch.column(self.schema.get_field_index(name))

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a column of numbers, (N,), without a copy."""
        if name not in self._numbers:
            values = self.arrow(name)
            if not _is_number(values.type):
                raise self._wrong_type(name, "numbers")
            self._numbers[name] = np.asarray(values.to_numpy(zero_copy_only=True))
        return self._numbers[name]

    def lists(self, name: str) -> ListColumn:
        """Return a column of lists of numbers, without a copy."""
        if name not in self._lists:
            lists = self.arrow(name)
            if not (pa.types.is_large_list(lists.type) and _is_number(lists.type.value_type)):
                raise self._wrong_type(name, "lists of numbers")
            self._lists[name] = ListColumn.from_arrow(lists)
        return self._lists[name]

    def count_labels(self) -> int:
        """Return one more than the largest integer that is a label of a sample, or else of an object."""
        if self._label_count is None:
            name = "label" if "label" in self.schema.names else "object_labels"
            kind = str(self.schema.field(name).type) if name in self.schema.names else ""
            is_list = kind.startswith("large_list")
            labels = (
                self.lists(name).values if is_list else self.column(name) if "int" in kind else np.zeros(0)
            )
            self._label_count = max(0, int(labels.max(initial=-1)) + 1)
        return self._label_count

    def strings(self, name: str, rows: npt.ArrayLike) -> list[str]:
        column = self.arrow(name)
        if column.type != pa.large_string():
            raise self._wrong_type(name, "strings")
        _, offsets, data = column.buffers()
        starts, text = np.frombuffer(offsets, np.int64)[: len(self) + 1], memoryview(data or b"")
        strings = []
        for row in np.asarray(rows, np.int64):
            start, end = int(starts[row]), int(starts[row + 1])
            if not 0 <= start <= end <= len(text):
                raise StaleIndexError(f"the {name} of row {row} is out of bounds", path=self.path, hint=_HINT)
            strings.append(bytes(text[start:end]).decode(errors="backslashreplace"))
        return strings

    def keys(self, rows: npt.ArrayLike) -> list[str]:
        return self.strings("key", rows)

    def samples(self, rows: npt.ArrayLike) -> Samples:
        """Return rows, (M,) integers, of the columns that locate payloads and describe images."""
        at = np.asarray(rows, np.int64)
        names = ("shard", "record", "offset", "length", "crc", "codec", "height", "width", "orientation")
        columns = {name: self.column(name)[at] for name in names}
        samples = Samples(row=at, **columns, bands=self.bands(at))
        self._check_sizes(samples.height, samples.width, at)
        return samples

    def bands(self, rows: npt.ArrayLike) -> npt.NDArray[np.uint32] | None:
        """Return rows of the column of bands, as in :class:`Samples`; None if there is none."""
        (name,) = BAND_COLUMNS
        if name not in self.schema.names:
            return None
        try:
            lists = self.lists(name).take(rows)
        except ValueError as error:
            raise StaleIndexError(f"the bands in the index are damaged: {error}", path=self.path) from error
        width = int(lists.counts.max(initial=0))
        if width > _MOST_BAND_NUMBERS:
            message = f"a row of the index has {width} numbers of bands"
            raise StaleIndexError(message, path=self.path, hint=_HINT)
        table = np.zeros((len(lists), width), np.uint32)
        table[np.arange(width) < lists.counts[:, None]] = lists.values
        return table

    def check_sizes(self) -> None:
        """Check that every image has pixels; two columns are read."""
        self._check_sizes(self.column("height"), self.column("width"), range(len(self)))

    def check_shapes(self, arrays: Mapping[str, ArrayColumn], rows: range) -> None:
        """Check that the arrays of some rows have the shapes that the manifest says."""
        for name, array in arrays.items():
            shapes = self.lists(shape_column(name)).take(rows)
            sides = np.array([-1 if side is None else side for side in array.shape], np.int64)
            fits = (shapes.counts == len(sides)).all()
            if not fits or ((shapes.values.reshape(-1, len(sides)) != sides) & (sides >= 0)).any():
                raise StaleIndexError(
                    f"the manifest says that the arrays {name!r} have the shape {array.shape}, and the index "
                    "has another one",
                    path=self.path,
                    hint=_HINT,
                )

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

    def _wrong_type(self, name: str, wanted: str) -> DatasetError:
        message = f"the index column {name!r} holds {self.arrow(name).type}, not {wanted}"
        return DatasetError(message, path=self.path)


def open_index(folder: Path, manifest: Manifest) -> Index:
    """Map the index of a dataset and check that it matches the manifest."""
    # Of a large index the digest and the sizes of images are not checked here, because the check reads the
    # whole file: :func:`stoker.verify` checks them, and reading a sample checks its size.
    path = folder / manifest.index.file
    hint = "Index and manifest come from different conversions: convert or index again."
    stale = partial(StaleIndexError, path=path, hint=hint)
    if not path.is_file():
        raise stale("the index is missing")
    # Before mapping: a file that is shorter than its header says would end the process.
    size = path.stat().st_size
    if size != manifest.index.bytes:
        raise stale(f"the index has {size} bytes where the manifest says {manifest.index.bytes}")
    if size <= _SMALL_INDEX and file_digest(path) != manifest.index.digest:
        raise stale("the index is not the one of the manifest: its digest differs")
    index = Index.open(path)
    needed = IMAGE_COLUMNS if manifest.sample_type == "image" else {}
    if missing := ", ".join(sorted(needed.keys() - manifest.columns.keys())):
        raise stale(f"the index of a dataset of images lacks the columns {missing}")
    if len(index) != manifest.index.rows or index.types != dict(manifest.columns):
        raise stale("the index has other rows or columns than the manifest says")
    if manifest.sample_type == "image" and size <= _SMALL_INDEX:
        index.check_sizes()
    index.check_shapes(manifest.arrays, range(len(index) if size <= _SMALL_INDEX else min(len(index), 1)))
    return index


def is_index_whole(file: Path, manifest: Manifest) -> bool:
    """Return whether the file of an index has the size and, if it is small, the digest in the manifest."""
    if file.is_symlink() or not file.is_file() or file.stat().st_size != manifest.index.bytes:
        return False
    return manifest.index.bytes > _SMALL_INDEX or file_digest(file) == manifest.index.digest


def _is_number(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type))


def _buffer_problem(column: pa.Array) -> str | None:
    parts = [column]
    if _varies(column.type):
        starts = column.buffers()[1]
        if starts is not None and starts.size % 8:
            return "the index has starts that are not integers of 64 bits"
        parts += [column.values] if pa.types.is_large_list(column.type) else []
    # A validity bitmap may contradict the count of nulls; no column of a sound index has one.
    if any(part.null_count or part.buffers()[0] is not None for part in parts):
        return "the index has null values"
    return None


def _schema_problem(schema: pa.Schema) -> str | None:
    version = (schema.metadata or {}).get(_VERSION_KEY)
    if version != _VERSION:
        return f"the index has version {version!r}, not {_VERSION.decode()}"
    for name in REQUIRED_COLUMNS:
        if name not in schema.names:
            return f"the index has no column {name!r}"
    if len(set(schema.names)) != len(schema.names):
        return "two columns of the index have the same name"
    for field in schema:
        if field.type != KNOWN_COLUMNS.get(field.name, field.type):
            return f"the index column {field.name!r} is {field.type}, not {KNOWN_COLUMNS[field.name]}"
    return None


# Whether an Arrow IPC file is compressed, which PyArrow reports only after decompression. The layout is in
# https://arrow.apache.org/docs/format/Columnar.html#ipc-file-format; the tables are in format/File.fbs and
# format/Message.fbs of Arrow's repository, as FlatBuffers.
_TAIL = struct.Struct("<i6s")  # length of the footer, and the magic bytes
_BLOCK = struct.Struct("<qi4xq")  # a message: its offset, bytes of its metadata, bytes of its body
_CONTINUED = 0xFFFFFFFF
_DICTIONARIES, _RECORD_BATCHES = 2, 3  # fields of Footer
_HEADER = 2  # field of Message
_COMPRESSION = 3  # field of RecordBatch


def _is_compressed(file: pa.NativeFile) -> bool:
    """Return whether a file is compressed, or has dictionaries, which may be compressed."""
    size = file.size()
    length, _ = _TAIL.unpack(_read(file, size - _TAIL.size, _TAIL.size))
    footer = _read(file, size - _TAIL.size - length, length)
    root = _offset(footer, 0)
    dictionaries = _field(footer, root, _DICTIONARIES)
    if dictionaries and _number(footer, _offset(footer, dictionaries)):
        return True
    batches = _offset(footer, _field(footer, root, _RECORD_BATCHES))
    offset, metadata_bytes, _ = _BLOCK.unpack_from(footer, batches + 4)
    message = _read(file, offset, metadata_bytes)
    # Files of old versions have no mark before the length.
    message = message[8 if _number(message, 0) == _CONTINUED else 4 :]
    header = _offset(message, _field(message, _offset(message, 0), _HEADER))
    return _field(message, header, _COMPRESSION) != 0


def _read(file: pa.NativeFile, offset: int, length: int) -> bytes:
    if offset < 0 or not 0 <= length <= file.size() - offset:
        raise struct.error("a part of the file lies outside of it")
    return bytes(file.read_at(length, offset))


def _number(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", data, at)[0])


def _offset(data: bytes, at: int) -> int:
    """Return the absolute offset that the relative offset at ``at`` leads to."""
    return at + _number(data, at)


def _field(data: bytes, table: int, number: int) -> int:
    """Return the offset of a field of a table; 0 if it is absent."""
    vtable = table - int(struct.unpack_from("<i", data, table)[0])
    (vtable_bytes,) = struct.unpack_from("<H", data, vtable)
    slot = 4 + 2 * number
    if slot >= vtable_bytes:
        return 0
    (field_offset,) = struct.unpack_from("<H", data, vtable + slot)
    return table + int(field_offset) if field_offset else 0


def write_index(path: Path, columns: Mapping[str, Any]) -> None:
    """Write an index of N rows."""
    if missing := REQUIRED_COLUMNS.keys() - columns.keys():
        raise ValueError(f"an index needs the columns {', '.join(sorted(missing))}")
    _write(path, {name: _to_arrow(name, values) for name, values in columns.items()})


def _to_arrow(name: str, values: Any) -> pa.Array:
    known = KNOWN_COLUMNS.get(name)
    is_numbers = isinstance(values, np.ndarray) and values.dtype.kind in "iuf"
    column = number_array(values) if is_numbers else values
    if isinstance(column, pa.Array) and known in (None, column.type):
        return column
    if known is None and not isinstance(values, np.ndarray):
        is_text = bool(len(values)) and isinstance(values[0], str)
        known = pa.large_string() if is_text else pa.large_list(pa.int64())
    return pa.array(values, known)


def _write(path: Path, arrays: Mapping[str, pa.Array], maps: Sequence[mmap.mmap] = ()) -> None:
    """Write an index; memory of ``maps``, mapped files, is released as soon as it is written."""
    if any(array.null_count for array in arrays.values()):
        raise ValueError("an index has no null values")
    schema = pa.schema(
        [pa.field(name, array.type, nullable=False) for name, array in arrays.items()],
        metadata={_VERSION_KEY: _VERSION},
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
        self.tell = file.tell

    def write(self, data: bytes) -> int:
        view = memoryview(data)
        for start in range(0, len(view), _PIECE):
            piece = view[start : start + _PIECE]
            while piece:
                piece = piece[self._file.write(piece) :]
            for one in self._maps if len(view) >= _PIECE else ():
                one.madvise(mmap.MADV_DONTNEED)
        return len(view)

    def flush(self) -> None:
        """Do nothing, as the file has no buffer."""

    def close(self) -> None:
        self.closed = True


def concat_indexes(
    parts: Sequence[Path],
    out: Path,
    more: Mapping[str, pa.Array] | None = None,
    changes: Mapping[str, Callable[[pa.Array], pa.Array] | None] | None = None,
) -> None:
    """Write the rows of several indexes, one after the other, as one index, and sync it."""
    # Memory does not grow with the rows, because the columns are gathered in temporary files beside ``out``.
    # ``more`` has other columns of all rows, by name. ``changes`` has a function for each column that changes
    # its form, and None for one that is left out.
    if not parts:
        raise ValueError("there is no index to concatenate")
    schema = Index.open(parts[0]).schema
    changes = changes or {}
    out.unlink(missing_ok=True)  # a process may have mapped the old file
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".columns-") as folder, ExitStack() as stack:
        spills: dict[str, _Spill] = {}
        for part in parts:
            index = Index.open(part)
            if index.schema != schema:
                raise ValueError(f"{part} has other columns than {parts[0]}")
            for name in schema.names:
                if (change := changes.get(name, _same)) is not None:
                    array = change(index.arrow(name))
                    if name not in spills:
                        spills[name] = stack.enter_context(_Spill(Path(folder), len(spills), array.type))
                    spills[name].append(array)
        maps: list[mmap.mmap] = []
        columns = {name: spill.array(maps) for name, spill in spills.items()}
        _write(out, {**columns, **(more or {})}, maps)
    sync(out)


def _same(array: pa.Array) -> pa.Array:
    return array


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
        values = _mapped(self._value_file, maps)
        if not _varies(self._type):
            return pa.Array.from_buffers(self._type, self._rows, [None, values], 0)
        starts = _mapped(self._start_file, maps)
        if self._type == pa.large_string():
            return pa.Array.from_buffers(self._type, self._rows, [None, starts, values], 0)
        items = pa.Array.from_buffers(self._type.value_type, self._values, [None, values], 0)
        return pa.Array.from_buffers(self._type, self._rows, [None, starts], 0, children=[items])

    def __enter__(self) -> _Spill:
        return self

    def __exit__(self, *exception: object) -> None:
        self._value_file.close()
        self._start_file.close()


def _varies(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(arrow_type) or pa.types.is_large_list(arrow_type))


def _mapped(file: IO[bytes], maps: list[mmap.mmap]) -> pa.Buffer:
    file.flush()
    if not file.tell():
        return pa.py_buffer(b"")
    with Path(file.name).open("rb") as readable:
        maps.append(mmap.mmap(readable.fileno(), 0, access=mmap.ACCESS_READ))
    return pa.py_buffer(maps[-1])
