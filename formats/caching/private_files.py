"""Folders and files that belong to one user, for caches in places that other users may write into."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from stoker.errors import WriteError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["is_read_only", "make_private_folder", "open_private", "write_private"]


def make_private_folder(folder: Path) -> None:
    """Make a folder that only this user may enter; one that exists must belong to this user.

    A folder on a read-only mount stays as it is, because other users cannot change what it holds either.

    Raises:
        WriteError: The folder belongs to another user.
        OSError: It cannot be made, or is a link (ELOOP).
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if is_read_only(descriptor):
            return
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid():
            raise WriteError(
                "the folder of the dataset in the cache belongs to another user",
                path=folder,
                hint="name a folder of your own with cache=",
            )
        if stat.S_IMODE(status.st_mode) != 0o700:
            os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def is_read_only(folder: Path | int) -> bool:
    """Return whether a folder, or one of this descriptor, lies on a read-only mount."""
    return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def open_private(path: Path, flags: int) -> int:
    """Open a regular file, but follow no link, and return its descriptor.

    Raises:
        OSError: It cannot be opened, is a link (ELOOP), or is a FIFO, a device, a socket or a folder.
    """
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    return descriptor


def write_private(path: Path, offset: int, data: bytes) -> None:
    """Write bytes into a file of this user, which exists."""
    descriptor = open_private(path, os.O_WRONLY)
    try:
        rest = memoryview(data)
        while rest:
            written = os.pwrite(descriptor, rest, offset)
            rest, offset = rest[written:], offset + written
    finally:
        os.close(descriptor)
