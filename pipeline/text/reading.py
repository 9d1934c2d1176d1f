"""Parts of the token reader: byte ranges of payloads, read-ahead by the kernel, and tokens for training."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stoker.formats.dataset.columns import ListColumn

Int64 = npt.NDArray[np.int64]

_PART = 128 << 10  # bytes; the kernel reads as much for one request anyway
_SHARE = 8  # of the memory: smaller datasets stay in the page cache


class PayloadLocations(NamedTuple):
    """The byte ranges of the payloads of N samples in the data files, from the index."""

    positions: Int64  # (N,) int64, positions of the samples in the dataset
    shard: npt.NDArray[np.int32]  # (N,) int32, number of the data file
    offset: Int64  # (N,) int64, bytes from the beginning of the file
    length: Int64  # (N,) int64, bytes
    crc: npt.NDArray[np.uint32]  # (N,) uint32, CRC32C of the payload
    tokens: Int64  # (N, F) int64, tokens in each of F stored fields

    def part(self, each: slice) -> PayloadLocations:
        """The byte ranges of some of the payloads."""
        return PayloadLocations._make(column[each] for column in self)


class ReadAhead:
    """The parts of data files that the kernel has not been asked to read ahead.

    A request costs a microsecond or more, even for bytes in memory. A dataset that takes a small share of the
    memory needs one request for each part. A larger one needs a request for each payload, because the kernel
    may have dropped it.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        parts = [size // _PART + 1 for size in sizes]
        self._sizes = np.array(sizes, np.int64)
        self._first = np.concatenate(([0], np.cumsum(parts, dtype=np.int64)))[:-1]
        stays = sum(sizes) * _SHARE <= _memory()
        self._asked = np.zeros(sum(parts) if stays else 0, np.bool_)

    def needed(
        self, shard: npt.NDArray[np.int32], offset: Int64, length: Int64
    ) -> tuple[npt.NDArray[np.int32], Int64, Int64]:
        """Return the ranges to request: file, first byte and bytes of each."""
        # shard (P,) int32, offset (P,) int64, length (P,) int64
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
    """Bytes of memory; 0 if the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 0


def trained_tokens(
    runs: ListColumn, begins: Int64, tokens: Int64, closing: Int64, *, bounds: Int64
) -> npt.NDArray[np.bool_]:
    """(T,) bool, the tokens of P slices that a model is trained on."""
    # begins (P,) int64, tokens (P,) int64, closing (P,) int64, bounds (P + 1,) int64
    which = np.repeat(np.arange(len(runs)), runs.counts // 2)
    first, end = runs.values.astype(np.int64).reshape(-1, 2).T
    lengths = np.diff(bounds)
    steps = np.zeros(int(bounds[-1]) + 1, np.int64)
    # The tokens of a slice are those from its beginning, and the closing tokens of the sequence.
    for origin, low, high in (
        (begins, np.zeros_like(lengths), lengths - closing),
        (tokens - lengths, lengths - closing, lengths),
    ):
        within = low[which], high[which]
        begin = np.clip(first - origin[which], *within) + bounds[which]
        stop = np.clip(end - origin[which], *within) + bounds[which]
        np.add.at(steps, begin, 1)
        np.add.at(steps, stop, -1)
    return np.asarray(np.cumsum(steps[:-1]) > 0)
