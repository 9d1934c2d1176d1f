"""Reading ahead of text: the parts of shards that the kernel is asked for, once where memory holds all."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["ReadAhead"]

_PART = 128 << 10  # bytes; the kernel reads as much for one request anyway
_SHARE = 8  # of the memory: smaller datasets stay in the page cache


class ReadAhead:
    """Says which payloads the kernel still has to be asked for.

    A request costs a microsecond or more, also for bytes in memory. Each part of a dataset that takes a small
    share of the memory is asked for once; of a larger one every payload is, because the kernel may have
    dropped it.

    Args:
        sizes: Bytes of each data file.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        parts = [size // _PART + 1 for size in sizes]
        self._sizes = np.array(sizes, np.int64)
        self._first = np.concatenate(([0], np.cumsum(parts, dtype=np.int64)))[:-1]
        stays = sum(sizes) * _SHARE <= _memory()
        self._asked = np.zeros(sum(parts) if stays else 0, np.bool_)

    def needed(
        self, shard: npt.NDArray[np.int32], offset: npt.NDArray[np.int64], length: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The ranges to ask for: file, first byte and bytes of each.

        Args:
            shard: (P,) int32, data file of each payload.
            offset: (P,) int64, first byte of each.
            length: (P,) int64, bytes of each.
        """
        if not len(self._asked):
            return shard, offset, length
        first, last = offset // _PART, (offset + length) // _PART
        base = self._first[shard]
        new = ~(self._asked[base + first] & self._asked[base + last]) | (last - first > 1)
        self._asked[(base + first)[new]] = True
        self._asked[(base + last)[new]] = True
        shard, begin = shard[new], first[new] * _PART
        end = np.minimum((last[new] + 1) * _PART, self._sizes[shard])
        return shard, begin, end - begin


def _memory() -> int:
    """Bytes of memory; 0 where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 0
