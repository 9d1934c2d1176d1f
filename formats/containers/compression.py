"""Shards that are compressed as a whole, which allow no random access: recognition and decompression."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from stoker.errors import CorruptRecordError

from ..files import open_regular, read_at
from .container import BadShardError
from .protobuf import read_varint

_CHUNK = 1 << 20
_BLOCK = 512
_MOST = 1 << 33  # bytes of a decompressed shard: a usual limit of writers is 64 MiB


def _python(module: str) -> str:
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
_ZLIB = Compression("zlib", b"", (), _python("zlib"))
_SNAPPY = Compression("snappy", b"", (".snappy",), _python("snappy"))
_COMPRESSIONS = (
    GZIP,
    Compression("zstd", b"\x28\xb5\x2f\xfd", (".zstd", ".zst"), "zstd -d", "zstd"),
    Compression("bzip2", b"BZh", (".bz2",), "bzip2 -d", "bz2"),
    _SNAPPY,
    Compression("xz", b"\xfd7zXZ\0", (".xz",), "xz -d"),
    Compression("brotli", b"", (".br",), "brotli -d", "brotli"),
)


def find_compression(start: bytes, name: str = "") -> Compression | None:
    """Return the compression of a file by its first bytes, or by its suffix if they do not tell; or None."""
    for row in _COMPRESSIONS:
        if start.startswith(row.magic) if row.magic else name.endswith(row.suffixes):
            return row
    return None


def blame_compression(error: BadShardError, start: bytes, name: str, *, may_be_zlib: bool = False) -> bool:
    """Say in an error that a file is compressed, and how to decompress it; return whether it is."""
    # The first two bytes of zlib are hardly a signature: RFC 1950, section 2.2.
    is_zlib = may_be_zlib and start[0] & 15 == 8 and int.from_bytes(start[:2], "big") % 31 == 0
    compression = _ZLIB if is_zlib else find_compression(start, name)
    if compression is None:
        return False
    suffix = next((suffix for suffix in compression.suffixes if name.endswith(suffix)), "")
    plain = name.removesuffix(suffix) + (".tar" if suffix == ".tgz" else "")
    if not suffix:
        plain = f"{Path(name).stem}-plain{Path(name).suffix}"
    error.args = (f"the file is compressed with {compression.name}, which allows no random access",)
    # With a redirection, because gzip refuses names that do not end in .gz.
    command = f"{compression.command} < {shlex.quote(name)} > {shlex.quote(plain)}"
    error.hint = f"Decompress it first: {command}"
    return True


def decompressed_start(start: bytes, most: int) -> bytes:
    """Return at most ``most`` first bytes of a compressed file; empty if its start cannot be decompressed."""
    found = find_compression(start)
    plain = b""
    with suppress(pa.ArrowException, OSError, ValueError):
        if found is not None and found.codec:
            with pa.CompressedInputStream(pa.BufferReader(start), found.codec) as stream:
                while len(plain) < most and (piece := stream.read(min(_BLOCK, most - len(plain)))):
                    plain += piece
    return plain


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
    compression = next((row for row in _COMPRESSIONS if file.name.endswith(row.suffixes)), None)
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
    size, _ = read_varint(memoryview(data), 0, len(data))
    if size > _MOST or size > 64 * len(data):  # three bytes copy 64 at the most
        raise ValueError(f"it claims {size} bytes")
    return bytes(pa.Codec("snappy").decompress(data, size))
