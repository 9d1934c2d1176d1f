"""The files of a cache: they belong to one user, are sparse, and have locks on ranges of their bytes.

Other users may write into the folder of a cache, so no function here follows a link. The kernel holds the
locks for an open file description (``F_OFD_SETLK``, fcntl(2)) and releases them when the process ends.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
import struct
import sys
from pathlib import Path

from stoker.errors import ConfigError, WriteError

FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
"""Numbers of the errors of a write to a disk without room."""

_KEEP_SIZE_AND_PUNCH = 0x01 | 0x02  # fallocate(2)
_FLOCK = struct.Struct("hhqqi4x")  # struct flock on 64-bit Linux: type, whence, start, length, pid


def make_private_folder(folder: Path) -> None:
    """Make a folder that only this user may enter; one that exists must belong to this user.

    A folder on a read-only mount stays as it is, because other users cannot change what it holds either.
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
                hint="name another folder with cache=",
            )
        if stat.S_IMODE(status.st_mode) != 0o700:
            os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def is_read_only(folder: Path | int) -> bool:
    """Return whether a folder, given by its path or a descriptor, lies on a read-only mount."""
    return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def open_private(path: Path, flags: int) -> int:
    """Open a regular file, but follow no link, and return its descriptor."""
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


def punch_hole(path: Path, offset: int, length: int) -> None:
    """Free the disk space of a part of a file, which then reads as zeros."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "fallocate"):
        hint = "leave out cache_size, or train on Linux"
        raise ConfigError("this operating system cannot free parts of a file", path=path, hint=hint)
    libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    descriptor = open_private(path, os.O_RDWR)
    try:
        if libc.fallocate(descriptor, _KEEP_SIZE_AND_PUNCH, offset, length):
            raise ConfigError(
                f"this file system cannot free parts of a file: {os.strerror(ctypes.get_errno())}",
                path=path,
                hint="name a folder on ext4, xfs, btrfs or tmpfs, or make room and leave out cache_size",
            )
    finally:
        os.close(descriptor)


def make_sparse(path: Path, size: int) -> None:
    """Make a file of this size that reads as zeros; a file that has the size already stays as it is."""
    descriptor = open_private(path, os.O_RDWR | os.O_CREAT)
    try:
        if os.fstat(descriptor).st_size != size:
            os.ftruncate(descriptor, 0)  # its blocks have another size, or it is not a file of Stoker
            os.ftruncate(descriptor, size)
    finally:
        os.close(descriptor)


def check_size(path: Path, size: int) -> None:
    """Raise OSError (EROFS) unless a file on a read-only mount has this size already."""
    if not path.exists() or path.lstat().st_size != size:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), os.fspath(path))


def lock_range(descriptor: int, lock_type: int, low: int, high: int, *, wait: bool = False) -> bool:
    """Lock or unlock the bytes ``low`` to ``high - 1``; return False if another lock conflicts.

    ``lock_type`` is ``F_RDLCK``, ``F_WRLCK`` or ``F_UNLCK`` of :mod:`fcntl`. With ``wait``, the call waits
    until no other lock conflicts.
    """
    if sys.platform != "linux":
        raise ConfigError(
            "a cache of a remote dataset needs the locks of Linux (F_OFD_SETLK)",
            hint="copy the dataset with stoker stage and load from that folder",
        )
    request = _FLOCK.pack(lock_type, os.SEEK_SET, low, high - low, 0)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK, request)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def locked_from(descriptor: int, low: int) -> int | None:
    """Return the first byte of a lock at ``low`` or after it that was not taken through this descriptor."""
    request = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, low, 0, 0)
    held, _, start, _, _ = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, request))
    return None if held == fcntl.F_UNLCK else int(start)
