"""Locks on ranges of a file, for processes that share the files of a cache.

The kernel holds them for an open file description (``F_OFD_SETLK``, fcntl(2)) and releases them when the
process ends, however it ends.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys

from stoker.errors import ConfigError

__all__ = ["lock_range", "locked_from"]

_FLOCK = struct.Struct("hhqqi4x")  # struct flock on 64-bit Linux: type, whence, start, length, pid


def lock_range(descriptor: int, lock_type: int, low: int, high: int, *, wait: bool = False) -> bool:
    """Lock or unlock the bytes ``low`` to ``high - 1``, and return whether no other lock conflicts with it.

    Args:
        descriptor: Of the file.
        lock_type: ``F_RDLCK``, ``F_WRLCK`` or ``F_UNLCK`` of :mod:`fcntl`.
        low: First byte.
        high: Last byte + 1.
        wait: Whether to wait until no other lock conflicts with it.

    Raises:
        ConfigError: The operating system has no such locks.
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
