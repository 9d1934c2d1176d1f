"""The lines of a text file, which are found once and then read in any order.

Files of gzip and zstd have no random access: they are unpacked once, into a file without a name, which the
kernel removes even if this process is killed. The texts of Parquet files are put into such a file as JSON
Lines.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stoker.errors import SourceError

from ..files import open_regular, read_at

_BLOCK = 4 << 20
_ROWS = 1024  # of a table, that are Python objects at a time
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"  # RFC 8878, 3.1.1
_PARQUET = ".parquet"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

CHAT_VALUES = ("tools", "chat_template_kwargs")
"""Values beside the messages of a chat, which some samples have: what the sample says to its template."""


@dataclass(frozen=True, eq=False)
class LineFile:
    """An open text file and the offsets of its lines."""

    path: Path  # The file, as the caller named it
    descriptor: int  # Descriptor of the file, or of the unpacked copy
    starts: npt.NDArray[np.int64]  # (N + 1,) int64, offset of each line, and of the end of the last one
    digest: str  # 32 hexadecimal digits of the content
    modified: int  # Time of the last change of the file of ``descriptor``, nanoseconds since 1970

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
        for run in np.split(rows, breaks):
            bounds = self.starts[run[0] : run[-1] + 2]
            data = read_at(self.descriptor, int(bounds[0]), int(bounds[-1] - bounds[0]))
            edges = (bounds - bounds[0]).tolist()
            lines += [data[a:b] for a, b in pairwise(edges)]
        self._check_unchanged()
        return [line.removesuffix(b"\n").removesuffix(b"\r") for line in lines]

    def _check_unchanged(self) -> None:
        status = os.fstat(self.descriptor)
        if (status.st_size, status.st_mtime_ns) != (int(self.starts[-1]), self.modified):
            raise SourceError(
                "the file was changed while it was converted",
                path=self.path,
                hint="Run the same command again when no program writes to the file.",
            )


@contextmanager
def open_lines(path: Path, scratch: Path, columns: Sequence[str] = ()) -> Iterator[LineFile]:
    """Open a text file, plain or compressed with gzip or zstd, or a Parquet file, and find its lines."""
    # A compressed file is unpacked on the disk of ``scratch``. Of a Parquet file, ``columns`` are read
    # besides texts.
    with ExitStack() as stack:
        try:
            file = _open(path, scratch, columns, stack)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise SourceError(f"the text cannot be read: {error.strerror or error}", path=path) from error
        yield file


def _open(path: Path, scratch: Path, columns: Sequence[str], stack: ExitStack) -> LineFile:
    descriptor, size = stack.enter_context(open_regular(path))
    start = read_at(descriptor, 0, 4)
    if start[:2] != _GZIP and start != _ZSTD and path.suffix.lower() != _PARQUET:
        return _find_lines(path, descriptor, size)
    unpacked = stack.enter_context(tempfile.TemporaryFile(dir=scratch)).fileno()  # noqa: SIM115 - the stack closes it
    _unpack(path, descriptor, unpacked, columns)
    return _find_lines(path, unpacked, os.fstat(unpacked).st_size)


def _unpack(path: Path, source: int, target: int, columns: Sequence[str]) -> None:
    try:
        with os.fdopen(os.dup(source), "rb") as packed, os.fdopen(os.dup(target), "wb") as out:
            if path.suffix.lower() == _PARQUET:
                _write_json_lines(path, packed, out, columns)
                return
            is_zstd = read_at(source, 0, 4) == _ZSTD
            with pa.CompressedInputStream(packed, "zstd") if is_zstd else gzip.open(packed) as stream:
                shutil.copyfileobj(stream, out, _BLOCK)
    except (EOFError, gzip.BadGzipFile, zlib.error, pa.ArrowException) as error:
        raise SourceError(f"the file cannot be unpacked: {error}", path=path) from error


def _write_json_lines(path: Path, packed: IO[bytes], out: IO[bytes], columns: Sequence[str]) -> None:
    """Write the columns of texts of a Parquet file, and those that are named, one object in each line."""
    with pq.ParquetFile(packed, page_checksum_verification=True) as table:
        texts = [
            field.name
            for field in table.schema_arrow
            if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
        ]
        names = table.schema_arrow.names
        if missing := [name for name in columns if name not in (*names, *CHAT_VALUES)]:
            raise SourceError(
                f"the table has no column {missing[0]!r}",
                path=path,
                hint=f"Choose from: {', '.join(names)}.",
            )
        texts += [name for name in columns if name in names and name not in texts]
        if not texts:
            raise SourceError(
                f"the table has no column of texts, but {', '.join(names)}",
                path=path,
                hint="Name a table with texts.",
            )
        for batch in table.iter_batches(_ROWS, columns=texts):
            for row in batch.to_pylist():
                out.write(json.dumps(row, default=str).encode() + b"\n")


def _find_lines(path: Path, descriptor: int, size: int) -> LineFile:
    status = os.fstat(descriptor)
    digest = hashlib.blake2b(digest_size=16)
    first = len(_BYTE_ORDER_MARK) if read_at(descriptor, 0, 3) == _BYTE_ORDER_MARK else 0
    starts = [np.array([first], np.int64)]
    for offset in range(0, size, _BLOCK):
        block = read_at(descriptor, offset, min(_BLOCK, size - offset))
        if len(block) < min(_BLOCK, size - offset):
            raise OSError(errno.EIO, "it became shorter while it was read", os.fspath(path))
        digest.update(block)
        starts.append(np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + (offset + 1))
    bounds = np.concatenate(starts)
    if bounds[-1] < size:
        bounds = np.append(bounds, size)  # the last line has no line break
    return LineFile(path, descriptor, bounds, digest.hexdigest(), status.st_mtime_ns)


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


START_BYTES = 4096
"""Bytes at the start of a file that :func:`check_text` needs."""

_TABLES = (".csv", ".tsv", ".arrow", ".feather", ".orc", ".avro", ".xls", ".xlsx")
_COMPRESSED = {b"\xfd7zXZ\0": "xz", b"BZh91AY&SY": "bzip2", b"PK\x03\x04": "zip", b"\x04\x22\x4d\x18": "lz4"}
_BINARY = {
    b"PAR1": "Parquet",
    b"ARROW1": "Arrow",
    b"FEA1": "Feather",
    b"Obj\x01": "Avro",
    b"%PDF-": "PDF",
    b"SQLite format 3": "SQLite",
    b"\x89HDF": "HDF5",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_JSON_ARRAY = re.compile(rb"(\xef\xbb\xbf)?\s*\[\s*\{\s*\"")
_JSON_LINES = (
    "write its texts to JSON Lines, one object in each line; with pandas: "
    "to_json(PATH, orient='records', lines=True)"
)


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
            hint = "convert it to UTF-8" if name == "UTF-16" else _JSON_LINES
            raise SourceError(f"the file is no text in UTF-8, but {name}", path=path, hint=hint)
    if b"\0" in start:
        raise SourceError("the file is binary, no text: it has a zero byte", path=path, hint=_JSON_LINES)
    if _JSON_ARRAY.match(start):
        raise SourceError("the file is a JSON array, not lines", path=path, hint=_JSON_LINES)
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:] if suffix.lower() not in (".gz", ".zst")]
    if suffixes and suffixes[-1] in _TABLES:
        raise SourceError(f"a {suffixes[-1]} file is a table, not lines of text", path=path, hint=_JSON_LINES)
