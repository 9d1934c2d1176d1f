"""Compressed MDS shards, which cannot be read in place: how to recognise and decompress them."""

from __future__ import annotations

import bz2
import contextlib
import shlex
import zlib
from collections.abc import Callable

import pyarrow as pa

_MOST = 1 << 16  # bytes that are decompressed
_SNAPPY = "import sys, snappy; sys.stdout.buffer.write(snappy.decompress(sys.stdin.buffer.read()))"
_COMMANDS = {
    "zstd": "zstd -d",
    "gz": "gzip -d",
    "bz2": "bzip2 -d",
    "br": "brotli -d",
    "snappy": f"python -c {shlex.quote(_SNAPPY)}",
}
"""Commands by the suffix of the file (streaming/base/compression.py)."""


def _zstd(start: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(start), "zstd") as stream:
        return bytes(stream.read(_MOST))


_MAGIC: dict[bytes, tuple[str, Callable[[bytes], bytes]]] = {
    b"\x28\xb5\x2f\xfd": ("zstd", _zstd),
    b"\x1f\x8b": ("gz", lambda start: zlib.decompressobj(31).decompress(start, _MOST)),
    b"BZh": ("bz2", lambda start: bz2.BZ2Decompressor().decompress(start, _MOST)),
}


def compression_of(name: str, start: bytes) -> str | None:
    """Return the compression of a file by its first bytes or by its suffix; None for an uncompressed file."""
    for magic, (kind, _) in _MAGIC.items():
        if start.startswith(magic):
            return kind
    suffix = name.rpartition(".")[2]
    return suffix if suffix in _COMMANDS else None


def decompressed_start(start: bytes) -> bytes:
    """Return the first bytes of a compressed file; empty if it is not compressed, or is damaged."""
    for magic, (_, decompress) in _MAGIC.items():
        if start.startswith(magic):
            with contextlib.suppress(zlib.error, OSError, ValueError, EOFError):
                return decompress(start)
    return b""


def decompress_command(name: str, compression: str) -> str:
    """Return the command that decompresses a shard."""
    plain = name.removesuffix(f".{compression}")
    plain = plain if plain != name else f"{name}.mds"
    return f"{_COMMANDS[compression]} < {shlex.quote(name)} > {shlex.quote(plain)}"
