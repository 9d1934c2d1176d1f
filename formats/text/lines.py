"""The lines of a text file, which are found once and then read in any order.

Files of gzip and zstd, and tables, whose rows are read as JSON Lines, have no random access. Their lines are
found as a stream. They are unpacked on the disk when their lines are read, into files without a name, which
the kernel removes even if this process is killed.
"""

from __future__ import annotations

import csv
import errno
import gzip
import hashlib
import io
import json
import os
import re
import tempfile
import threading
import weakref
import zlib
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stoker.errors import SourceError, StokerError
from stoker.processes import cached_property

from ..files import is_unicode, open_regular, read_at
from ..sources.columns import names_in_types
from ..sources.image_files import unreadable
from ..sources.json_stream import stream_array
from ..sources.tables import checked

_BLOCK = 4 << 20
_ROWS = 1024  # of a table, that are Python objects at a time
_GZIP = b"\x1f\x8b"
_ZSTD = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")  # or a skippable frame, RFC 8878, 3.1
_PARQUET, _ARROW, _ARROW_STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
TO_UTF8 = "iconv -f LATIN1 -t UTF-8 FILE"
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
LONGEST = 1 << 28  # bytes of a line; a longer one is no text for training
_MOST_COPIES = 16  # unpacked files that are kept, as threads read near each other
_START = 4096  # bytes in which a file shows what it is
_FIRST_LINES = 16  # that are objects if a file under any name holds JSON Lines
_MOST_FIRST = 1 << 26  # bytes of these lines

CHAT_VALUES = ("tools", "chat_template_kwargs", "system")
"""Values beside the messages of a chat, which some samples have: what the sample says to its template."""


@dataclass(frozen=True, eq=False)
class LineFile:
    """A text file and the offsets of its lines; it is open while lines are read."""

    path: Path  # The file, as the caller named it
    starts: npt.NDArray[np.int64]  # (N + 1,) int64, offset of each line, and of the end of the last one
    digest: str  # 32 hexadecimal digits of the content
    # Opens the content for a number of lines: its descriptor, and the offset of its first byte
    opened: Callable[[int], AbstractContextManager[tuple[int, int]]]
    holds_objects: bool | None = None  # Whether the first lines are objects; None where there are none
    # Names of the values in a row of a table, or of the first object, and whether they are texts
    values: Mapping[str, bool] = field(default_factory=dict)
    is_table: bool = False
    has_cells: bool = False  # Whether values are text that may stand for numbers, as in CSV

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """(N,) int64, bytes of each line, with its line break."""
        return np.diff(self.starts)

    def read(self, rows: npt.NDArray[np.int64]) -> list[bytes]:
        """Read lines, without their line breaks, which are LF or CR LF."""
        # rows (M,) int64
        lines = []
        breaks = np.flatnonzero(np.diff(rows) != 1) + 1
        with _naming(self.path, listed=True), self.opened(len(rows)) as (descriptor, offset):
            for run in np.split(rows, breaks):
                bounds = self.starts[run[0] : run[-1] + 2]
                data = read_at(descriptor, offset + int(bounds[0]), int(bounds[-1] - bounds[0]))
                edges = (bounds - bounds[0]).tolist()
                lines += [data[a:b] for a, b in pairwise(edges)]
        return [line.removesuffix(b"\n").removesuffix(b"\r") for line in lines]


@contextmanager
def _naming(path: Path, *, listed: bool = False) -> Iterator[None]:
    """Name the file in errors of reading it; those of its storage are no fault of the file."""
    try:
        yield
    except StokerError:
        raise
    except MemoryError as error:  # Arrow allocates what a length in the file says
        reason = "it is damaged, or needs more memory than there is"
        raise SourceError(f"the file cannot be unpacked: {reason}", path=path) from error
    except (EOFError, OSError, UnicodeError, zlib.error, pa.ArrowException) as error:
        if not isinstance(error, OSError) or error.errno is None:
            hint = "Copy or download the file again."
            if "too much memory" in str(error):
                hint = f"Unpack it: zstd -dc --long=31 {path} | stoker convert-text - TARGET"
            raise SourceError(f"the file cannot be unpacked: {error}", path=path, hint=hint) from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        reason = unreadable(error, os.fspath(path), listed=listed)[1]
        raise SourceError(f"the text cannot be read: {reason}", path=path) from error


def open_lines(path: Path, copies: Copies, columns: Sequence[str] = ()) -> LineFile:
    """Find the lines of a text file, plain or compressed with gzip or zstd, or of a table.

    ``columns`` are the values that are read of a table.
    """
    with _naming(path), open_regular(path) as (descriptor, _):
        before = os.fstat(descriptor)
        content = _Content(path, descriptor, columns)
        if content.has_cells or not content.is_table:
            check_text(path, content.start)
        starts, digest, first = _find_lines(content.blocks())
        _check_unchanged(path, before, os.fstat(descriptor))
    lines = first.removeprefix(_BYTE_ORDER_MARK).split(b"\n", _FIRST_LINES)
    if len(lines) > _FIRST_LINES or len(first) < starts[-1]:
        lines.pop()  # the rest, or a part of a line
    forms = [_object_of(line) for line in lines if line.strip()]
    objects = content.is_table or (all(forms) if forms else None)
    if bare(path).suffix.lower() == ".json" and objects is False:
        raise SourceError(
            "a .json file must hold an object in each line, or an array of objects, and no more",
            path=path,
            hint=_JSON_LINES,
        )
    if content.is_packed:
        opened = partial(copies.opened, path, before, columns, len(starts) - 1)
    else:
        opened = partial(_opened, path, before)
    return LineFile(
        path,
        starts,
        digest,
        opened,
        objects,
        content.values if content.values is not None else (names_in(forms[0]) if forms else {}),
        content.is_table,
        content.has_cells,
    )


def _check_unchanged(path: Path, before: os.stat_result, now: os.stat_result) -> None:
    if (before.st_size, before.st_mtime_ns) != (now.st_size, now.st_mtime_ns):
        raise SourceError(
            "the file was changed while it was converted",
            path=path,
            hint="Run the same command again when no program writes to the file.",
        )


@contextmanager
def _opened(path: Path, before: os.stat_result, _: int) -> Iterator[tuple[int, int]]:
    with open_regular(path) as (descriptor, _size):
        yield descriptor, 0
        _check_unchanged(path, before, os.fstat(descriptor))


class _Copy:
    """A temporary file without a name, which lasts as long as this object."""

    def __init__(self, folder: Path, unread: int = 0) -> None:
        with tempfile.TemporaryFile(dir=folder) as file:
            self.descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self.descriptor)
        self.unread = unread  # Lines that are not yet asked for

    def append(self, blocks: Iterable[bytes]) -> int:
        """Write blocks to the end; return the offset of the first."""
        start = os.lseek(self.descriptor, 0, os.SEEK_END)
        with os.fdopen(os.dup(self.descriptor), "wb") as file:
            file.writelines(blocks)
        return start


class Copies:
    """Unpacked copies of packed files, on the disk of ``scratch``; several threads read them at once.

    A copy is made when the first of its lines is read. Where lines are read in their order, it goes after
    the last one, and few are kept. Where they are ``shuffled``, all stay, in one file.
    """

    def __init__(self, scratch: Path, *, shuffled: bool = False) -> None:
        self._scratch = scratch
        self._shuffled = shuffled
        self._lock = threading.Lock()
        self._locks: defaultdict[Path | None, threading.Lock] = defaultdict(threading.Lock)
        self._whole: _Copy | None = None
        self._copies: OrderedDict[Path, tuple[_Copy, int]] = OrderedDict()

    @contextmanager
    def opened(
        self, path: Path, before: os.stat_result, columns: Sequence[str], lines: int, read: int
    ) -> Iterator[tuple[int, int]]:
        """Yield the descriptor of a copy and where it begins, to read some of its ``lines``."""
        with self._lock:
            lock = self._locks[None if self._shuffled else path]
        with lock:
            with self._lock:
                found = self._copies.get(path)
            copy, start = found or self._made(path, before, columns, lines)
        with self._lock:
            copy.unread -= read
            self._copies[path] = copy, start
            self._copies.move_to_end(path)
            if not self._shuffled:
                if copy.unread <= 0:
                    del self._copies[path]
                while len(self._copies) > _MOST_COPIES:
                    self._copies.popitem(last=False)
        yield copy.descriptor, start

    def _made(
        self, path: Path, before: os.stat_result, columns: Sequence[str], lines: int
    ) -> tuple[_Copy, int]:
        if self._shuffled:
            copy = self._whole = self._whole or _Copy(self._scratch)
        else:
            copy = _Copy(self._scratch, lines)
        with open_regular(path) as (descriptor, _):
            _check_unchanged(path, before, os.fstat(descriptor))
            return copy, copy.append(_Content(path, descriptor, columns).blocks())


class _Content:
    """What an open file holds, unpacked: lines, or a table whose rows become lines of JSON."""

    def __init__(self, path: Path, descriptor: int, columns: Sequence[str]) -> None:
        self._path, self._descriptor, self._columns = path, descriptor, columns
        start = read_at(descriptor, 0, _START)
        self._compression = "gzip" if start.startswith(_GZIP) else "zstd" if _ZSTD.match(start) else None
        self._delimiter = _DELIMITERS.get(bare(path).suffix.lower())
        if self._compression is not None:
            with self._stream() as stream:
                start = stream.read(_START)
        self.start = start
        self._is_array = _JSON_ARRAY.match(start) is not None
        # Parquet and Arrow need a file: the lengths in a damaged stream would be allocated.
        self._form = next((form for form in (_PARQUET, _ARROW, _ARROW_STREAM) if start.startswith(form)), b"")
        if self._compression is not None:
            self._form = b""
        self.has_cells = self._delimiter is not None and not self._form
        self.is_table = bool(self._form) or self.has_cells or self._is_array
        self.is_packed = self._compression is not None or self.is_table
        self.values: Mapping[str, bool] | None = None

    @contextmanager
    def _stream(self) -> Iterator[Any]:
        with os.fdopen(os.dup(self._descriptor), "rb") as file:
            file.seek(0)
            if self._compression == "gzip":
                with gzip.open(file) as stream:
                    yield stream
            elif self._compression == "zstd":
                with pa.CompressedInputStream(file, "zstd") as stream:
                    yield stream
            else:
                yield file

    def blocks(self) -> Iterator[bytes]:
        """Yield the content, some megabytes at a time."""
        with self._stream() as stream:
            if not self.is_table:
                while block := stream.read(_BLOCK):
                    yield block
                return
            rows = self._rows(stream)
            while some := list(islice(rows, _ROWS)):
                # Bytes of cells that are not UTF-8 stay as they are, and the conversion skips their lines.
                lines = (json.dumps(row, default=str, ensure_ascii=not self.has_cells) for row in some)
                yield b"".join(line.encode(errors="surrogateescape") + b"\n" for line in lines)

    def _rows(self, stream: Any) -> Iterator[Any]:
        if self._is_array:
            return stream_array(self._path, read=stream.read)
        if self.has_cells:
            return self._cells(stream)
        if self._form == _PARQUET:
            table = pq.ParquetFile(stream, page_checksum_verification=True)
            columns = self._chosen(table.schema_arrow)
            batches = table.iter_batches(_ROWS, columns=columns)
        else:
            mapped = pa.memory_map(os.fspath(self._path))
            table = pa.ipc.open_file(mapped) if self._form == _ARROW else pa.ipc.open_stream(mapped)
            columns = self._chosen(table.schema)
            numbers = range(table.num_record_batches) if self._form == _ARROW else ()
            read = map(table.get_batch, numbers) if self._form == _ARROW else table
            batches = (
                part.slice(first, _ROWS)
                for part in (checked(batch.select(columns)) for batch in read)
                for first in range(0, len(part), _ROWS)
            )
        return (row for batch in batches for row in batch.to_pylist())

    def _chosen(self, schema: pa.Schema) -> list[str]:
        """The columns that are read: those that are named, or that hold named values."""
        if len(set(schema.names)) < len(schema.names):
            raise SourceError("two columns have the same name", path=self._path, hint="Rename one of them.")
        self.values = names_in_types(schema)
        roots = {name.partition(".")[0] for name in self._columns}
        return [name for name in schema.names if name in self._columns or name in roots]

    def _cells(self, stream: Any) -> Iterator[dict[str, str]]:
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST))
        text = io.TextIOWrapper(stream, "utf-8-sig", "surrogateescape", newline="")
        first, columns = text.readline(), set(self._columns)
        # Spreadsheets write ; between cells where the comma is a decimal point.
        between = dict.fromkeys((self._delimiter or ",", *",;\t"))
        fitting = [one for one in between if columns & set(next(csv.reader([first], delimiter=one), []))]
        delimiter = fitting[0] if fitting else max(between, key=first.count)
        rows = csv.reader(chain([first], text), strict=True, delimiter=delimiter)
        try:
            header = next(rows, [])
            if len(set(header)) < len(header):
                raise SourceError(
                    "two columns have the same name", path=self._path, hint="Rename one of them."
                )
            if not is_unicode("".join(header)):
                raise SourceError("the header is not UTF-8", path=self._path, hint=f"Convert it: {TO_UTF8}.")
            self.values = dict.fromkeys(header, True)
            for row in rows:
                if row and len(row) != len(header):
                    raise csv.Error(f"{len(row)} fields where the header has {len(header)}")
                if row:
                    yield {name: cell for name, cell in zip(header, row, strict=True) if name in columns}
        except csv.Error as error:
            raise SourceError(
                f"line {rows.line_num} cannot be parsed: {error}",
                path=self._path,
                hint="Repair it: a field with quotes or separators stands in quotes, its own quotes doubled.",
            ) from error
        text.detach()


def names_in(document: Mapping[str, Any], before: str = "") -> dict[str, bool]:
    """Names of the values of an object, and of the objects in it, and whether they are texts."""
    names = {}
    for name, value in document.items():
        names[f"{before}{name}"] = isinstance(value, str)
        if isinstance(value, Mapping):
            names |= names_in(value, f"{before}{name}.")
    return names


def _object_of(line: bytes) -> dict[str, Any]:
    """The object in a line; empty for a line without one."""
    with suppress(ValueError, RecursionError):
        document = json.loads(line) if line.lstrip().startswith(b"{") else None
        return document if isinstance(document, dict) else {}
    return {}


def _find_lines(blocks: Iterable[bytes]) -> tuple[npt.NDArray[np.int64], str, bytes]:
    """Offsets of the lines in a content, its digest, and its first lines."""
    digest = hashlib.blake2b(digest_size=16)
    starts: list[npt.NDArray[np.int64]] = []
    first, size = bytearray(), 0
    for block in blocks:
        digest.update(block)
        starts.append(np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + (size + 1))
        if len(first) == size < _MOST_FIRST and sum(map(len, starts[:-1])) < _FIRST_LINES:
            first += block
        size += len(block)
    begin = len(_BYTE_ORDER_MARK) if first.startswith(_BYTE_ORDER_MARK) else 0
    bounds = np.concatenate([np.array([begin], np.int64), *starts])
    if bounds[-1] < size:
        bounds = np.append(bounds, size)  # the last line has no line break
    return bounds, digest.hexdigest(), bytes(first)


@dataclass(frozen=True)
class LineKeys:
    """A large_string column of N keys that takes no memory. Listings use it as an Arrow array."""

    names: tuple[str, ...]  # Name of each file in the keys
    counts: tuple[int, ...]  # Lines of each file, whose numbers begin at 1

    def __len__(self) -> int:
        return sum(self.counts)

    def __getitem__(self, row: int) -> Any:
        return self.take(np.array([row]))[0]

    def take(self, rows: npt.ArrayLike) -> pa.Array:
        """Return the keys at ``rows``, (M,) integers, as large_string."""
        indices = np.asarray(rows, np.int64)
        file = np.searchsorted(self._ends, indices, side="right")
        lines = indices - self._starts[file] + 1
        names = pa.array(self.names, pa.large_string()).take(pa.array(file))
        numbers = pc.cast(pa.array(lines), pa.large_string())
        return pc.binary_join_element_wise(names, numbers, pa.scalar(":", pa.large_string()))

    def slice(self, start: int, length: int) -> pa.Array:
        """Return the keys of at most ``length`` rows from ``start`` on."""
        return self.take(np.arange(start, min(start + length, len(self))))

    @cached_property
    def _ends(self) -> npt.NDArray[np.int64]:
        return np.cumsum(self.counts, dtype=np.int64)

    @cached_property
    def _starts(self) -> npt.NDArray[np.int64]:
        return self._ends - np.array(self.counts, np.int64)


_TABLES = (".orc", ".avro", ".xls", ".xlsx")
_COMPRESSED = {b"\xfd7zXZ\0": "xz", b"BZh91AY&SY": "bzip2", b"PK\x03\x04": "zip", b"\x04\x22\x4d\x18": "lz4"}
_BINARY = {
    b"PAR1": "Parquet",
    b"ARROW1": "Arrow",
    b"FEA1": "Feather",
    b"Obj\x01": "Avro",
    b"%PDF-": "PDF",
    b"SQLite format 3": "SQLite",
    b"\x89HDF": "HDF5",
    b"\xff\xfe\0\0": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_JSON_ARRAY = re.compile(rb"(\xef\xbb\xbf)?\s*\[\s*\{\s*\"")
_JSON_DOCUMENT = re.compile(rb'(\xef\xbb\xbf)?\s*\{\s*\n\s*"[^"\n]*"\s*:')
_JSON_LINES = (
    "write its texts to JSON Lines, one object in each line; with pandas: "
    "to_json(PATH, orient='records', lines=True)"
)


def bare(path: Path) -> Path:
    """Return a path without the suffix of a compressed file."""
    return path.with_suffix("") if path.suffix.lower() in (".gz", ".zst") else path


def check_text(path: Path, start: bytes) -> None:
    """Check that a file holds lines of text, by its suffix and its first bytes, unpacked."""
    for signature, name in _COMPRESSED.items():
        if start.startswith(signature):
            raise SourceError(
                f"the file is compressed with {name}, not with gzip or zstd",
                path=path,
                hint="Unpack it, or compress it with gzip or zstd.",
            )
    if start.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd")):
        raise SourceError("the file is compressed twice", path=path, hint="Unpack it once.")
    for signature, name in _BINARY.items():
        if start.startswith(signature):
            hint = "convert it to UTF-8" if name.startswith("UTF") else _JSON_LINES
            raise SourceError(f"the file is no text in UTF-8, but {name}", path=path, hint=hint)
    if 100 * start.count(0) > len(start):  # lines with one of a few are skipped
        raise SourceError("the file is binary, no text: it has zero bytes", path=path, hint=_JSON_LINES)
    if _JSON_DOCUMENT.match(start):
        raise SourceError(
            "the file is a JSON object of several lines, not lines", path=path, hint=_JSON_LINES
        )
    if (suffix := bare(path).suffix.lower()) in _TABLES:
        raise SourceError(f"a {suffix} file is a table, not lines of text", path=path, hint=_JSON_LINES)
