"""Cutting ordered rows into groups: ``world_size`` batches of one shape, no sample lost or repeated.

Buckets and windows are both runs of rows, taken one after another. What is left of a run after its
full groups moves on to the next, so that a single group in the epoch can be incomplete;
``last_batch`` says what becomes of that one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Groups", "LastBatch", "balance_groups", "cut_buckets", "cut_windows"]

LastBatch = Literal["drop", "pad", "partial"]
"""What becomes of the samples that do not fill a last group. "drop": they are left out of this
epoch. "pad": the group is filled up with repeated rows, which the plan's mask marks. "partial": the
group is smaller, and at most ``world_size - 1`` rows are repeated so that all ranks have the same
shape; each bucket then ends in a smaller group of its own, as in GluonNLP."""


@dataclass(frozen=True)
class Groups:
    """Groups of rows, one after another.

    Attributes:
        rows: (M,) int64.
        starts: (G,) int64, ascending, where each group begins in ``rows``.
        sizes: (G,) int64, rows of each group.
        runs: (G,) int64, the bucket or window that each group was cut from.
        filled: Rows at the end of the last group that are repeated.
        world_size: Number of ranks.
    """

    rows: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    runs: npt.NDArray[np.int64]
    filled: int
    world_size: int


class _Cutter:
    def __init__(self, rows: npt.NDArray[np.int64], world_size: int) -> None:
        self.rows = rows
        self.world_size = world_size
        self.start = 0
        self.filled = 0
        self._groups: list[tuple[int, int, int]] = []

    def add(self, batch_size: int, number: int, run: int) -> None:
        if number > 0:
            self._groups.append((batch_size * self.world_size, number, run))
            self.start += batch_size * self.world_size * number

    def finish(self, batch_size: int, run: int, last_batch: LastBatch) -> Groups:
        left = self.rows[self.start :]
        if len(left) and last_batch != "drop":
            if last_batch == "partial":
                batch_size = -(-len(left) // self.world_size)
            self.filled = batch_size * self.world_size - len(left)
            self.rows = np.concatenate((self.rows, np.resize(left, self.filled)))
            self.add(batch_size, 1, run)
        sizes, numbers, runs = np.array(self._groups, np.int64).reshape(-1, 3).T
        sizes = np.repeat(sizes, numbers)
        return Groups(
            self.rows, np.cumsum(sizes) - sizes, sizes, np.repeat(runs, numbers), self.filled, self.world_size
        )


def cut_buckets(
    rows: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    batch_sizes: npt.NDArray[np.int64],
    world_size: int,
    last_batch: LastBatch,
) -> Groups:
    """Cut rows that are ordered by bucket.

    Args:
        rows: (N,) int64, shortest bucket first: its left-over samples fit the next one's shape.
        counts: (K,) int64, rows of each bucket.
        batch_sizes: (K,) int64, rows of a batch on one rank.
        world_size: Number of ranks.
        last_batch: See :data:`LastBatch`.
    """
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
    rows: npt.NDArray[np.int64],
    keys: npt.NDArray[np.int64],
    *,
    window: int,
    batch_size: Callable[[int], int],
    world_size: int,
    last_batch: LastBatch,
) -> Groups:
    """Sort rows within windows, longest first, and cut.

    Args:
        rows: (N,) int64, in the order in which windows are filled.
        keys: (number of samples,) int64, what to sort by, indexed by row.
        window: Rows of a window; the last ones of a window may move on to the next.
        batch_size: Rows of a batch on one rank, from the largest key in it.
        world_size: Number of ranks.
        last_batch: See :data:`LastBatch`.
    """
    cutter = _Cutter(rows.copy(), world_size)
    size, number = 1, 0
    for number, opened in enumerate(range(0, len(rows), window)):
        end = min(opened + window, len(rows))
        pool = cutter.rows[cutter.start : end]
        pool[:] = pool[np.argsort(-keys[pool], kind="stable")]
        ranked, first = keys[pool], cutter.start
        while cutter.start < end:
            size = batch_size(int(ranked[cutter.start - first]))
            if cutter.start + size * world_size > end:
                break
            cutter.add(size, 1, number)
    return cutter.finish(size, number, last_batch)


def balance_groups(
    groups: Groups, whole: npt.NDArray[np.bool_], costs: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Deal the samples of each group so that the ranks' totals come out even.

    Largest first: of each next ``world_size`` samples the rank with the least so far gets the
    largest. Every rank keeps its number of samples.

    Args:
        groups: Whose rows to reorder.
        whole: (G,) bool, groups without repeated rows; the others stay as they are.
        costs: (number of samples,) int64, cost of each sample, indexed by row.

    Returns:
        (M,) int64, the reordered rows.
    """
    reordered: npt.NDArray[np.int64] = groups.rows.copy()
    world = groups.world_size
    for size in np.unique(groups.sizes[whole]).tolist():
        places = groups.starts[whole & (groups.sizes == size)][:, None] + np.arange(size)
        rows = groups.rows[places]
        rows = np.take_along_axis(rows, np.argsort(-costs[rows], axis=1, kind="stable"), axis=1)
        loads = np.zeros((len(rows), world), np.int64)
        for first in range(0, size, world):
            dealt = rows[:, first : first + world]
            ranks = np.argsort(loads, axis=1, kind="stable")
            np.put_along_axis(dealt, ranks, dealt.copy(), axis=1)
            loads += costs[dealt]
        reordered[places] = rows
    return reordered
