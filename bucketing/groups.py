"""Groups of rows: ``world_size`` batches of one shape, cut from ordered rows by the samplers.

Buckets and windows are runs of rows. The rows that remain after the full groups of a run move on to the
next run, so that only one group of the epoch can be incomplete; ``last_batch`` decides about it. The other
groups lose and repeat no sample.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]

LastGroup = Literal["drop", "pad", "partial"]
"""The rule for samples that do not fill the last group. "drop" leaves them out of this epoch. "pad" fills
the group with repeated rows, which the mask of the plan marks. "partial" makes the group smaller and repeats
at most ``world_size - 1`` rows, so that all ranks have the same shape; each bucket then ends with a smaller
group, as in GluonNLP."""


@dataclass(frozen=True)
class Groups:
    """Groups of rows, end to end."""

    rows: Int64  # (M,)
    starts: Int64  # (G,), ascending, the start of each group in ``rows``
    sizes: Int64  # (G,), the number of rows in each group
    runs: Int64  # (G,), the bucket or window of each group
    repeated: int  # Number of repeated rows at the end of the last group
    world_size: int


class _Cutter:
    """Cuts rows into groups from the front."""

    def __init__(self, rows: Int64, world_size: int) -> None:
        self.rows = rows
        self.world_size = world_size
        self.start = 0
        self.repeated = 0
        self._groups: list[tuple[int, int, int]] = []

    def add(self, batch_size: int, number: int, run: int) -> None:
        if number > 0:
            self._groups.append((batch_size * self.world_size, number, run))
            self.start += batch_size * self.world_size * number

    def finish(self, batch_size: int, run: int, last_batch: LastGroup) -> Groups:
        left = self.rows[self.start :]
        if len(left) and last_batch != "drop":
            if last_batch == "partial":
                batch_size = -(-len(left) // self.world_size)
            self.repeated = batch_size * self.world_size - len(left)
            self.rows = np.concatenate((self.rows, np.resize(left, self.repeated)))
            self.add(batch_size, 1, run)
        sizes, numbers, runs = np.array(self._groups, np.int64).reshape(-1, 3).T
        sizes = np.repeat(sizes, numbers)
        starts, each_run = np.cumsum(sizes) - sizes, np.repeat(runs, numbers)
        return Groups(self.rows, starts, sizes, each_run, self.repeated, self.world_size)


def cut_buckets(
    rows: Int64,
    counts: Int64,
    batch_sizes: Int64,
    world_size: int,
    last_batch: LastGroup,
) -> Groups:
    """Return groups of rows that are ordered by bucket."""
    # rows (N,), counts (K,), batch_sizes (K,)
    cutter = _Cutter(rows, world_size)
    used = int(np.flatnonzero(counts)[-1]) if len(rows) else 0
    for bucket in range(used + 1):
        end, size = int(counts[: bucket + 1].sum()), int(batch_sizes[bucket])
        cutter.add(size, (end - cutter.start) // (size * world_size), bucket)
        if last_batch == "partial" and bucket < used:
            smaller = (end - cutter.start) // world_size
            cutter.add(smaller, min(smaller, 1), bucket)
    return cutter.finish(int(batch_sizes[used]), used, last_batch)


def cut_windows(
    rows: Int64,
    keys: Int64,
    *,
    window: int,
    batch_size: Callable[[Int64], int],
    together: int,
    world_size: int,
    last_batch: LastGroup,
) -> Groups:
    """Return groups of rows that are sorted within windows, the longest first."""
    # rows (N,), keys (number of samples,) or (number of samples, D)
    cutter = _Cutter(rows.copy(), world_size)
    size, number = 1, 0
    for number, opened in enumerate(range(0, len(rows), window)):
        end = min(opened + window, len(rows))
        pool = cutter.rows[cutter.start : end]
        if keys.ndim == 2:
            pool[:] = pool[kd_order(keys[pool], together * world_size)] if len(pool) else pool
        else:
            pool[:] = pool[np.argsort(-keys[pool], kind="stable")]
        ranked, first = keys[pool].reshape(len(pool), -1), cutter.start
        while cutter.start < end:
            size = batch_size(ranked[cutter.start - first :])
            if cutter.start + size * world_size > end:
                break
            cutter.add(size, 1, number)
    return cutter.finish(size, number, last_batch)


def kd_order(lengths: Int64, size: int) -> Int64:
    """Return an order of samples with several lengths; each ``size`` in a row share a batch."""
    # As in a k-d tree (Bentley, "Multidimensional binary search trees used for associative searching", 1975),
    # samples are halved again and again, each time by one of their lengths; here by the one that leaves the
    # least padding. The longest samples tend to come first. All parts of one level are halved at once, in
    # time O(N D log N).
    # lengths (N, D) -> (N,)
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
        chosen = np.argmin([_padded_tokens(lengths[order], bounds, starts) for order in ranked], axis=0)
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


def _padded_tokens(table: Int64, bounds: Int64, starts: Int64) -> Int64:
    """(S,), the padded tokens of the segments that begin at ``starts`` if their halves were batches."""
    sizes = np.diff(bounds, append=len(table))
    padded = np.maximum.reduceat(table, bounds, axis=0).sum(axis=1) * sizes
    sums: Int64 = np.add.reduceat(padded, np.searchsorted(bounds, starts))
    return sums


def balance_groups(groups: Groups, whole: npt.NDArray[np.bool_], costs: Int64) -> Int64:
    """Deal the samples of each group to ranks so that the total costs of the ranks are about equal."""
    # Samples are dealt in rounds of ``world_size``, the costliest first. In each round the rank with the
    # least total gets the costliest sample. Every rank keeps its number of samples.
    # whole (G,), costs (number of samples,) -> (M,)
    reordered: Int64 = groups.rows.copy()
    world = groups.world_size
    for size in np.unique(groups.sizes[whole]).tolist():
        indices = groups.starts[whole & (groups.sizes == size)][:, None] + np.arange(size)
        rows = groups.rows[indices]
        rows = np.take_along_axis(rows, np.argsort(-costs[rows], axis=1, kind="stable"), axis=1)
        loads = np.zeros((len(rows), world), np.int64)
        for first in range(0, size, world):
            dealt = rows[:, first : first + world]
            ranks = np.argsort(loads, axis=1, kind="stable")
            np.put_along_axis(dealt, ranks, dealt.copy(), axis=1)
            loads += costs[dealt]
        reordered[indices] = rows
    return reordered
