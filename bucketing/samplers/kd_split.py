"""The k-d split: an order of samples with several lengths whose batches need little padding.

As in a k-d tree (Bentley, "Multidimensional binary search trees used for associative searching", 1975),
samples are halved again and again, each time by one of their lengths; here by the one that leaves the least
padding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Int64 = npt.NDArray[np.int64]


def kd_order(lengths: Int64, size: int) -> Int64:
    """Return (N,) int64, an order of samples; each ``size`` in a row share a batch.

    The longest samples tend to come first. All parts of one level are halved at once, in time O(N D log N).
    """
    # lengths (N, D) int64
    ranked = [np.argsort(-column, kind="stable") for column in lengths.T]
    starts = np.zeros(1, np.int64)
    part = np.zeros(len(lengths), np.uint16)
    while True:
        ends = np.append(starts[1:], len(lengths))
        batches = -(-(ends - starts) // size)
        if batches.max() < 2:
            break
        halved = np.flatnonzero(batches > 1)
        middles = starts[halved] + (batches[halved] + 1) // 2 * size
        bounds = np.insert(starts, halved + 1, middles)
        chosen = np.argmin([_padded(lengths[order], bounds, starts) for order in ranked], axis=0)
        by_slot = np.repeat(chosen, ends - starts)
        order = np.stack(ranked)[by_slot, np.arange(len(lengths))]
        numbers = np.repeat(np.arange(len(bounds)), np.diff(bounds, append=len(lengths)))
        # NumPy sorts 16 bits by counting.
        part = np.empty(len(lengths), np.uint16 if len(bounds) <= 1 << 16 else np.int64)
        part[order] = numbers
        ranked = [one[np.argsort(part[one], kind="stable")] for one in ranked]
        starts = bounds
    by_total: Int64 = np.argsort(-lengths.sum(axis=1), kind="stable")
    return by_total[np.argsort(part[by_total], kind="stable")]


def _padded(table: Int64, bounds: Int64, starts: Int64) -> Int64:
    """(S,) int64, the padded tokens of the segments that begin at ``starts`` if their halves were batches."""
    sizes = np.diff(bounds, append=len(table))
    padded = np.maximum.reduceat(table, bounds, axis=0).sum(axis=1) * sizes
    sums: Int64 = np.add.reduceat(padded, np.searchsorted(bounds, starts))
    return sums
