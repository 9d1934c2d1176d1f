"""Pairs of hashes within a Hamming distance, found without a comparison of all pairs.

The bits are divided into ``d // 2 + 1`` bands. If two hashes differ in at most d bits, one of the bands
differs in at most one bit, since two bits in each would be more than d (multi-index hashing, Norouzi, Punjani
and Fleet, 2012). So each band is sorted, and each hash is looked up with its bits and with each bit changed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from stoker.formats.dataset.columns import expand_ranges

Int64 = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

_BITS = 64
_MOST_CANDIDATES = 1 << 22  # compared at once: 64 MB
_ONES = np.array([bin(value).count("1") for value in range(1 << 16)], np.uint8)


def hamming_distances(first: Hashes, second: Hashes) -> Int64:
    """Return (N,) int64, the number of bits in which each of N pairs of hashes differ."""
    words = (first ^ second).view(np.uint16).reshape(-1, 4)
    return np.asarray(_ONES[words].sum(axis=1, dtype=np.int64))


def near_pairs(hashes: Hashes, distance: int) -> tuple[Int64, Int64]:
    """Return the indices of all pairs within a distance, (P,) int64 each, the first smaller."""
    # hashes (N,) uint64
    pairs = [np.zeros(0, np.int64)]
    if distance:
        edges = np.linspace(0, _BITS, distance // 2 + 2).astype(np.int64)
        for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            band = (hashes >> np.uint64(start)) & np.uint64((1 << (stop - start)) - 1)
            for first, second in _candidates(band, stop - start):
                near = hamming_distances(hashes[first], hashes[second]) <= distance
                pairs.append(first[near] * len(hashes) + second[near])
    first, second = np.divmod(np.unique(np.concatenate(pairs)), max(len(hashes), 1))
    return first, second


def _candidates(band: Hashes, bits: int) -> Iterator[tuple[Int64, Int64]]:
    """Yield pairs of indices, the first smaller, whose bits of a band differ in one bit at most."""
    order = np.argsort(band, kind="stable")
    ordered = band[order]
    for change in (0, *(1 << bit for bit in range(bits))):
        wanted = ordered ^ np.uint64(change)
        starts = np.searchsorted(ordered, wanted, "left").astype(np.int64)
        counts = np.searchsorted(ordered, wanted, "right") - starts
        ends = np.cumsum(counts)
        begin = 0
        while begin < len(band):
            # At least one hash at a time, even if many share its bits.
            done = ends[begin - 1] if begin else 0
            end = max(int(np.searchsorted(ends, done + _MOST_CANDIDATES, "right")), begin + 1)
            first = np.repeat(order[begin:end], counts[begin:end])
            second = order[expand_ranges(starts[begin:end], starts[begin:end] + counts[begin:end])]
            yield first[first < second], second[first < second]
            begin = end
