"""Sparse files, which hold the blocks of a cache: functions that make one and that free a part of one."""

from __future__ import annotations

import ctypes
import errno
import os
from typing import TYPE_CHECKING

from stoker.errors import ConfigError

from .private_files import open_private

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["FULL_DISK", "check_size", "make_sparse", "punch_hole"]

FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
"""Numbers of the errors of a write that finds no room."""

_KEEP_SIZE_AND_PUNCH = 0x01 | 0x02  # fallocate(2)


def punch_hole(path: Path, offset: int, length: int) -> None:
    """Free the disk space of a part of a file, which then reads as zeros.

    Raises:
        ConfigError: The file system or the operating system cannot free parts of a file.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "fallocate"):
        raise ConfigError(
            "this operating system cannot free parts of a file",
            path=path,
            hint="leave out cache_size, or train on Linux",
        )
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
    """Make a file of this size that reads as zeros; one that has the size stays as it is."""
    descriptor = open_private(path, os.O_RDWR | os.O_CREAT)
    try:
        if os.fstat(descriptor).st_size != size:
            os.ftruncate(descriptor, 0)  # it has blocks of another size, or is no file of Stoker's
            os.ftruncate(descriptor, size)
    finally:
        os.close(descriptor)


def check_size(path: Path, size: int) -> None:
    """Check that a file on a read-only mount has the size that :func:`make_sparse` would give it.

    Raises:
        OSError: It has not (EROFS).
    """
    if not path.exists() or path.lstat().st_size != size:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), os.fspath(path))
