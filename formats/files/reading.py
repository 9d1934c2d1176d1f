"""Reading of untrusted files: regular files only, and no memory mapping."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from stoker._native import crc32c
from stoker.errors import ConfigError

_BLOCK = 1 << 22


def check_named(**paths: str | os.PathLike[str] | None) -> None:
    """Check that no path is empty, as the value of an unset shell variable is; None is allowed."""
    for name, path in paths.items():
        if path is not None and not os.fspath(path):
            raise ConfigError(f"{name} is empty, and names no path", hint="the current folder is called .")


@contextmanager
def open_regular(path: str | os.PathLike[str]) -> Iterator[tuple[int, int]]:
    """Open a regular file for reading and yield (descriptor, size in bytes)."""
    # A FIFO without a writer would block a plain open for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
        yield descriptor, status.st_size
    finally:
        os.close(descriptor)


def read_at(descriptor: int, offset: int, length: int) -> bytes:
    """Return ``length`` bytes at ``offset``, or fewer at the end of the file."""
    data = os.pread(descriptor, length, offset)
    if len(data) == length or not data:
        return data
    parts = [data]
    done = len(data)
    while done < length and (data := os.pread(descriptor, length - done, offset + done)):
        parts.append(data)
        done += len(data)
    return b"".join(parts)


def digest_of(crc: int) -> str:
    """Return a CRC32C as manifests state it: ``crc32c:`` and eight hexadecimal digits."""
    return f"crc32c:{crc:08x}"


def file_digest(path: str | os.PathLike[str]) -> str:
    """Return the digest of a whole file, see :func:`digest_of`."""
    crc = 0
    for block in _blocks(path):
        crc = crc32c(block, crc)
    return digest_of(crc)


class FileDigests(NamedTuple):
    """Two digests of a file."""

    crc: str  # CRC32C, see :func:`digest_of`
    sha256: str  # SHA-256, 64 hexadecimal digits


def file_digests(path: str | os.PathLike[str]) -> FileDigests:
    """Return the digests of a whole file, which is read once."""
    crc, sha256 = 0, hashlib.sha256()
    for block in _blocks(path):
        crc = crc32c(block, crc)
        sha256.update(block)
    return FileDigests(digest_of(crc), sha256.hexdigest())


def _blocks(path: str | os.PathLike[str]) -> Iterator[bytes]:
    with open_regular(path) as (descriptor, _):
        offset = 0
        while block := os.pread(descriptor, _BLOCK, offset):
            yield block
            offset += len(block)
