"""The page cache after the C++ module has asked the kernel to read bytes ahead."""

import ctypes
import mmap
import os
import time
from pathlib import Path

import numpy as np
import pytest

from stoker import _native


def resident(descriptor: int, size: int) -> float:
    """Share of a file's pages that are in the page cache."""
    with mmap.mmap(descriptor, size, prot=mmap.PROT_READ) as mapping:
        pages = np.zeros(-(-size // mmap.PAGESIZE), np.uint8)
        address = np.frombuffer(mapping, np.uint8)
        libc = ctypes.CDLL(None, use_errno=True)
        first, vector = (ctypes.c_void_p(array.ctypes.data) for array in (address, pages))
        assert libc.mincore(first, ctypes.c_size_t(size), vector) == 0
        del address
        return float((pages & 1).mean())


@pytest.mark.parametrize("mapped", [True, False])
def test_a_range_is_read_ahead_to_its_end(tmp_path: Path, mapped: bool) -> None:
    """Linux limits the bytes that one call can request."""
    path, size = tmp_path / "large", 24 << 20
    path.write_bytes(bytes(size))
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if resident(file.fileno(), size) > 0:
            pytest.skip("this file system keeps everything in memory")
        shards = _native.Shards([str(path)], [size], mapped)
        share, until = 0.0, time.monotonic() + 60
        while share < 1 and time.monotonic() < until:
            # Again: what was read may be gone already, on a machine that needs its memory.
            shards.will_need(np.zeros(1, np.int32), np.zeros(1, np.int64), np.array([size]))
            time.sleep(0.01)
            share = resident(file.fileno(), size)
        assert share == 1


def test_opening_a_shard_reads_only_its_beginning(tmp_path: Path) -> None:
    """A page fault would read as much around the first page as the readahead of the device."""
    path, size = tmp_path / "shard", 24 << 20
    path.write_bytes(bytes(size))
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if resident(file.fileno(), size) > 0:
            pytest.skip("this file system keeps everything in memory")
        shards = _native.Shards([str(path)], [size], True)
        assert resident(file.fileno(), size) * size <= 64 << 10
        shards.close()
