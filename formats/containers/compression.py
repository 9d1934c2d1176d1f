"""Shards that are compressed as a whole, which allow no random access: recognition and decompression."""

from __future__ import annotations

import bz2
import shlex
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from stoker.errors import CorruptRecordError

from ..files import open_regular, read_at
from .container import BadShardError

_CHUNK = 1 << 20
_MOST = 1 << 33  # bytes of a decompressed shard: a usual limit of writers is 64 MiB


def _python(module: str) -> str:
    """Return the command that decompresses with a module of Python."""
    program = f"import sys, {module}; sys.stdout.buffer.write({module}.decompress(sys.stdin.buffer.read()))"
    return f"python -c {shlex.quote(program)}"


class Compression(NamedTuple):
    """A way to compress files."""

    name: str
    magic: bytes  # First bytes of a file; empty if they do not tell
    suffixes: tuple[str, ...]
    command: str  # Decompresses its standard input
    codec: str = ""  # Name of the stream in PyArrow; empty if there is none


GZIP = Compression("gzip", b"\x1f\x8b", (".gz", ".tgz"), "gzip -d", "gzip")
ZLIB = Compression("zlib", b"", (), _python("zlib"))
_ZSTD = Compression("zstd", b"\x28\xb5\x2f\xfd", (".zstd", ".zst"), "zstd -d", "zstd")
_BZIP2 = Compression("bzip2", b"BZh", (".bz2",), "bzip2 -d", "bz2")
_SNAPPY = Compression("snappy", b"", (".snappy",), _python("snappy"))
_COMPRESSIONS = (
    GZIP,
    _ZSTD,
    _BZIP2,
    Compression("xz", b"\xfd7zXZ\0", (".xz",), "xz -d"),
    Compression("brotli", b"", (".br",), "brotli -d", "brotli"),
    _SNAPPY,
)


def find_compression(start: bytes, name: str = "") -> Compression | None:
    """Return the compression of a file by its first bytes, or by the suffix of its name; None without one."""
    for row in _COMPRESSIONS:
        if row.magic and start.startswith(row.magic):
            return row
    return next((row for row in _COMPRESSIONS if name.endswith(row.suffixes)), None)


def blame_compression(error: BadShardError, compression: Compression, name: str) -> None:
    """Say in an error about a file that it is compressed, and the command that decompresses it."""
    suffix = next((suffix for suffix in compression.suffixes if name.endswith(suffix)), "")
    plain = name.removesuffix(suffix) + (".tar" if suffix == ".tgz" else "")
    if not suffix:
        plain = f"{Path(name).stem}-plain{Path(name).suffix}"
    error.args = (f"the file is compressed with {compression.name}, which allows no random access",)
    # With a redirection, because gzip refuses names that do not end in .gz.
    command = f"{compression.command} < {shlex.quote(name)} > {shlex.quote(plain)}"
    error.hint = f"Decompress it first: {command}"


def decompressed_start(start: bytes, most: int) -> bytes:
    """Return at most ``most`` first bytes of a compressed file; empty if its start cannot be decompressed."""
    found = find_compression(start)
    with suppress(zlib.error, OSError, ValueError, EOFError):
        if found is GZIP:
            return zlib.decompressobj(31).decompress(start, most)
        if found is _BZIP2:
            return bz2.BZ2Decompressor().decompress(start, most)
        if found is _ZSTD:
            with pa.CompressedInputStream(pa.BufferReader(start), "zstd") as stream:
                return bytes(stream.read(most))
    return b""


def decompress(file: Path, into: Path) -> Path:
    """Write a file without its compression, which its suffix names, into a folder; return the new path."""
    target = into / file.stem
    try:
        with target.open("xb") as out:
            written = 0
            for piece in _pieces(file):
                written += len(piece)
                if written > _MOST:
                    raise ValueError(f"it has more than {_MOST >> 30} GiB")
                out.write(piece)
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        raise CorruptRecordError(
            f"the shard cannot be decompressed: {error}",
            path=file,
            shard=file.name,
            hint="Copy the shard again; if it is whole, write it with another compression.",
        ) from error
    return target


def _pieces(file: Path) -> Iterator[bytes]:
    compression = find_compression(b"", file.name)
    if compression is _SNAPPY:
        yield _snappy(file)
    elif compression is None or not compression.codec:
        raise ValueError("its compression is not known")
    else:
        with pa.OSFile(str(file)) as raw, pa.CompressedInputStream(raw, compression.codec) as stream:
            while piece := stream.read(_CHUNK):
                yield piece


def _snappy(file: Path) -> bytes:
    """Decompress snappy's format of one block, whose first bytes state its length as a varint."""
    with open_regular(file) as (descriptor, length):
        data = read_at(descriptor, 0, length)
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    if size > _MOST or size > 64 * len(data):  # three bytes copy 64 at the most
        raise ValueError(f"it claims {size} bytes")
    return bytes(pa.Codec("snappy").decompress(data, size))
