"""Sparse files that hold the blocks fetched so far, and a state file with one byte for each block.

Several processes may fill, read and evict the same files at once. All of them map the state file, and locks
on ranges of it keep conflicting actions apart. The kernel holds the locks for an open file description
(``F_OFD_SETLK``, fcntl(2)) and releases them when the process ends. Evicting a block punches a hole, so a
file keeps its size and can stay mapped. The files belong to one user. Other users may write into the folder
of a cache, so no function here follows a link.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import stat
import struct
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError, WriteError
from stoker.log import EventLog

from .store import StoppedError

Blocks = npt.NDArray[np.int64]

FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
"""Numbers of the errors of a write to a disk without room."""

BLOCK_BYTES = 256 << 10
"""Small enough that a sample fetches few other bytes, large enough to be worth a request."""

_LOG = EventLog("cache")
_REQUEST_BYTES = 8 << 20
_STATE_NAME = ".blocks"
_FETCHING = 1 << 40  # offset of the locks for fetching, far after those for reading and evicting
_LIMITS = 1 << 41  # offset of the locks whose own offsets state the limits of the processes
_NO_LIMIT = 1 << 40
_POLL = 0.01  # seconds between two tries for a lock that another process holds
_KEEP_SIZE_AND_PUNCH = 0x01 | 0x02  # fallocate(2)
_FLOCK = struct.Struct("hhqqi4x")  # struct flock on 64-bit Linux: type, whence, start, length, pid


class BlockFiles:
    """Files of known sizes in a folder; each of their blocks is present or missing.

    One numbering covers the blocks of all files: file ``f`` has ``first[f]`` to ``first[f + 1] - 1``.
    """

    def __init__(
        self,
        folder: Path,
        names: Sequence[str],
        sizes: Sequence[int],
        block_bytes: int = BLOCK_BYTES,
        *,
        mode: int = 0o600,
    ) -> None:
        self.folder = folder
        self.bytes_fetched = self.bytes_evicted = 0
        self.paths = [folder / name for name in names]
        self.sizes = np.array(sizes, np.int64)
        self.block_bytes = block_bytes
        counts = -(-self.sizes // block_bytes)
        self.first: Blocks = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self._limit = _NO_LIMIT
        self._pins = np.zeros(int(self.first[-1]), np.int32)
        # Reentrant: garbage collection inside it may finalise, and close, this object.
        self._guard = threading.RLock()
        folder.mkdir(parents=True, exist_ok=True)
        self.is_read_only = is_read_only(folder)
        state = folder / _STATE_NAME
        for path, size in zip([*self.paths, state], [*sizes, max(1, int(self.first[-1]))], strict=True):
            make_sparse(path, size, mode, read_only=self.is_read_only)
        self._descriptor = open_private(state, os.O_RDONLY if self.is_read_only else os.O_RDWR)
        access = mmap.ACCESS_READ if self.is_read_only else mmap.ACCESS_WRITE
        mapped = mmap.mmap(self._descriptor, max(1, int(self.first[-1])), access=access)
        self._state: npt.NDArray[np.uint8] = np.frombuffer(mapped, np.uint8, int(self.first[-1]))
        self._close = weakref.finalize(self, os.close, self._descriptor)
        self._close.atexit = False  # threads may be fetching until the very end

    def close(self) -> None:
        with self._guard:
            if self._descriptor >= 0:
                self._close()
                self._descriptor = -1
                self._state = np.array(self._state)  # a copy, which threads that still fetch may write to

    @property
    def present_bytes(self) -> int:
        return int(np.count_nonzero(self._state)) * self.block_bytes

    @property
    def free_bytes(self) -> int:
        status = os.statvfs(self.folder)
        return status.f_bavail * status.f_frsize

    def missing(self, blocks: Blocks) -> Blocks:
        absent: Blocks = blocks[self._state[blocks] == 0]
        return absent

    def runs(self, blocks: Blocks) -> list[tuple[int, int]]:
        """Return runs of consecutive blocks of one file, (first, last + 1), each for one request."""
        parts = np.split(blocks, np.flatnonzero(np.isin(blocks, self.first)))
        return [run for part in parts for run in _runs(part, max(1, _REQUEST_BYTES // self.block_bytes))]

    def of_file(self, file: int) -> Blocks:
        return np.arange(self.first[file], self.first[file + 1])

    def covering(
        self, file: npt.NDArray[np.int64], offset: npt.NDArray[np.int64], length: npt.NDArray[np.int64]
    ) -> Blocks:
        """Return the blocks that N ranges of bytes touch, (M,) int64, ascending, each once."""
        # file (N,), offset (N,), length (N,)
        low = self.first[file] + offset // self.block_bytes
        high = self.first[file] + (offset + np.maximum(length, 1) - 1) // self.block_bytes
        parts = [np.arange(a, b + 1) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
        return np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)

    def fill(
        self,
        low: int,
        high: int,
        read: Callable[[int, int, int], bytes],
        *,
        again: bool = False,
        make_room: Callable[[int], int] | None = None,
    ) -> int:
        """Fetch the missing blocks among ``low`` to ``high - 1`` of one file; with ``again``, all of them."""
        file = int(np.searchsorted(self.first, low, "right")) - 1
        base, size = int(self.first[file]), int(self.sizes[file])
        fetched = 0
        wanted = np.arange(low, high)
        if self.is_read_only and (again or len(self.missing(wanted))):
            raise _read_only(self.paths[file])
        with nullcontext() if self.is_read_only else self._fetching(low, high):
            for start, stop in _runs(wanted if again else self.missing(wanted), high - low):
                begin = (start - base) * self.block_bytes
                data = read(file, begin, min((stop - base) * self.block_bytes, size))
                self._write(self.paths[file], begin, data, make_room)
                self._state[start:stop] = 1
                fetched += len(data)
        with self._guard:
            self.bytes_fetched += fetched
        return fetched

    def _write(self, path: Path, offset: int, data: bytes, make_room: Callable[[int], int] | None) -> None:
        """Write blocks; on a full disk evict others until they fit."""
        try:
            write_private(path, offset, data)
        except OSError as error:
            if make_room is None or error.errno not in FULL_DISK:
                raise
            freed = 0
            with suppress(ConfigError):  # the file system cannot free parts of a file
                freed = make_room(len(data))
            if not freed:
                raise
            self._write(path, offset, data, make_room)

    def forget(self, file: int) -> None:
        self._state[self.first[file] : self.first[file + 1]] = 0

    def pin(self, blocks: Blocks) -> None:
        """Protect these blocks from eviction, present or not, in all processes."""
        with self._guard:
            self._pins[blocks] += 1
            for low, high in _runs(blocks[self._pins[blocks] == 1]):
                self._lock(fcntl.F_RDLCK, low, high, wait=True)

    def unpin(self, blocks: Blocks) -> None:
        with self._guard:
            if self._descriptor < 0:
                return
            self._pins[blocks] -= 1
            for low, high in _runs(blocks[self._pins[blocks] == 0]):
                self._lock(fcntl.F_UNLCK, low, high)

    def evict(self, excess: int, last_use: npt.NDArray[np.int64]) -> int:
        """Evict blocks that are not pinned until ``excess`` bytes are free; return how many became free."""
        # ``last_use`` has the time of the last use of every block, in any unit; the oldest are evicted first.
        freed = 0
        if self.is_read_only:
            return freed
        with self._guard:
            free = np.flatnonzero((self._state != 0) & (self._pins == 0))
            for block in free[np.argsort(last_use[free], kind="stable")].tolist():
                if freed >= excess:
                    break
                try:
                    if self._lock(fcntl.F_WRLCK, block, block + 1):
                        self._state[block] = 0
                        file = int(np.searchsorted(self.first, block, "right")) - 1
                        start = (block - int(self.first[file])) * self.block_bytes
                        punch_hole(self.paths[file], start, self.block_bytes)
                        freed += self.block_bytes
                finally:  # also after an interrupt: other processes wait for the lock
                    self._lock(fcntl.F_UNLCK, block, block + 1)
            self.bytes_evicted += freed
        _LOG.info("evict", f"{self.folder}: evicted {freed:,} of {excess:,} bytes")
        return freed

    def claim(self, limit: int | None) -> None:
        """Tell all processes the most bytes that this one allows the files to have; None for any number."""
        self._limit = _NO_LIMIT if limit is None else min(limit // self.block_bytes, _NO_LIMIT - 1)
        self._lock(fcntl.F_RDLCK, _LIMITS + self._limit, _LIMITS + self._limit + 1, wait=True)

    @property
    def largest_limit(self) -> int | None:
        """The largest limit that a process claims, in bytes of whole blocks; None for any number."""
        with self._guard:
            if self._descriptor < 0:
                raise StoppedError
            largest = self._limit
            while (above := self._locked_from(_LIMITS + largest + 1)) is not None:
                largest = above - _LIMITS
        return None if largest == _NO_LIMIT else largest * self.block_bytes

    def check_evictable(self) -> None:
        punch_hole(self.folder / _STATE_NAME, 1 << 40, self.block_bytes)

    @contextmanager
    def _fetching(self, low: int, high: int) -> Iterator[None]:
        while not self._lock(fcntl.F_WRLCK, _FETCHING + low, _FETCHING + high):
            time.sleep(_POLL)
        try:
            yield
        finally:
            with self._guard:
                if self._descriptor >= 0:
                    self._lock(fcntl.F_UNLCK, _FETCHING + low, _FETCHING + high)

    def _lock(self, lock_type: int, low: int, high: int, *, wait: bool = False) -> bool:
        """Lock or unlock the bytes ``low`` to ``high - 1``; return False if another lock conflicts."""
        # With ``wait``, the call waits until no other lock conflicts.
        if self._descriptor < 0:
            raise StoppedError
        if sys.platform != "linux":
            raise ConfigError(
                "a cache of a remote dataset needs the locks of Linux (F_OFD_SETLK)",
                hint="Copy the dataset with stoker stage and load from that folder.",
            )
        request = _FLOCK.pack(lock_type, os.SEEK_SET, low, high - low, 0)
        try:
            fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK, request)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        return True

    def _locked_from(self, low: int) -> int | None:
        """Return the first byte of a lock at ``low`` or after it that another reader holds."""
        request = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, low, 0, 0)
        held, _, start, _, _ = _FLOCK.unpack(fcntl.fcntl(self._descriptor, fcntl.F_OFD_GETLK, request))
        return None if held == fcntl.F_UNLCK else int(start)


def _runs(blocks: Blocks, longest: int = 1 << 40) -> list[tuple[int, int]]:
    """Return runs of consecutive blocks, (first, last + 1), none longer than ``longest`` blocks."""
    if not len(blocks):
        return []
    parts = np.split(blocks, np.flatnonzero(np.diff(blocks) != 1) + 1)
    runs = [(int(part[0]), int(part[-1]) + 1) for part in parts]
    return [(first, min(first + longest, high)) for low, high in runs for first in range(low, high, longest)]


def make_private_folder(folder: Path) -> None:
    """Make a folder that only this user may enter; one that exists must belong to this user."""
    # A folder on a read-only mount stays as it is, because other users cannot change what it holds either.
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
                hint="Name another folder with cache=.",
            )
        if stat.S_IMODE(status.st_mode) != 0o700:
            os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def is_read_only(folder: Path | int) -> bool:
    """Return whether a folder, given by its path or a descriptor, lies on a read-only mount."""
    return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def open_private(path: Path, flags: int, mode: int = 0o600) -> int:
    """Open a regular file, but follow no link, and return its descriptor."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    return descriptor


def write_private(path: Path, offset: int, data: bytes) -> None:
    """Write bytes into a file of this user, which exists."""
    with os.fdopen(open_private(path, os.O_WRONLY), "wb", 0) as file:
        rest = memoryview(data)
        while rest:
            written = os.pwrite(file.fileno(), rest, offset)
            rest, offset = rest[written:], offset + written


def punch_hole(path: Path, offset: int, length: int) -> None:
    """Free the disk space of a part of a file, which then reads as zeros."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "fallocate"):
        hint = "Leave out cache_size, or train on Linux."
        raise ConfigError("this operating system cannot free parts of a file", path=path, hint=hint)
    libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    with os.fdopen(open_private(path, os.O_RDWR), "rb+", 0) as file:
        if libc.fallocate(file.fileno(), _KEEP_SIZE_AND_PUNCH, offset, length):
            raise ConfigError(
                f"this file system cannot free parts of a file: {os.strerror(ctypes.get_errno())}",
                path=path,
                hint="Name a folder on ext4, xfs, btrfs or tmpfs, or make room and leave out cache_size.",
            )


def make_sparse(path: Path, size: int, mode: int, *, read_only: bool) -> None:
    """Make a file of this size that reads as zeros; a file that has the size already stays as it is."""
    # On a read-only mount it must have the size already; otherwise the error is EROFS.
    if read_only:
        if not path.exists() or path.lstat().st_size != size:
            raise _read_only(path)
        return
    with os.fdopen(open_private(path, os.O_RDWR | os.O_CREAT, mode), "rb+", 0) as file:
        if os.fstat(file.fileno()).st_size != size:
            file.truncate(0)  # its blocks have another size, or it is not a file of Stoker
            file.truncate(size)


def _read_only(path: Path) -> OSError:
    return OSError(errno.EROFS, os.strerror(errno.EROFS), os.fspath(path))
