"""The draws of a loader's epochs, planned ahead, and from them the next use of each block in a cache.

A cache evicts the blocks that it needs last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from stoker.formats.dataset.columns import expand_ranges

from ..order.exclusions import original
from ..order.orders import FullShuffle, Order, Sequential, Stream
from ..order.permutation import Permutation
from ..order.sample_source import SampleSource

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]

STEPS = 1 << 32
"""Moments of an epoch that is planned by steps: more than any epoch has."""

_CHUNK = 1 << 16  # draws that are ordered at once
_MOST_INVERTED = 50_000_000  # samples; the table of their blocks takes eight bytes for each
_MOST_SORTED = 20_000_000  # draws of an epoch; each takes eight bytes or more, in two epochs


@dataclass(frozen=True)
class PlannedDraws:
    """The draws of every epoch, on all ranks.

    A moment is the number of a draw, or of a step, in its epoch. ``epoch * moments + moment`` counts them
    over all epochs.
    """

    moments: int  # Moments of an epoch, or more
    count: int  # Approximate number of draws in an epoch
    # Returns the draws of an epoch: (K,) int64, their moments, and (K,) int64, the index rows of their
    # samples, counted through all datasets of a mixture
    drawn: Callable[[int], tuple[Int64, Int64]]
    order: Order | None = None  # The order of the draws, if it draws all rows of one dataset


def draws_of_order(order: Order, source: SampleSource) -> PlannedDraws:
    """Return the draws of an order from a source; the number of a draw is its moment."""
    order = original(order)
    whole = order.order if isinstance(order, Stream) else order  # whose moments over all epochs are the same

    def drawn(epoch: int) -> tuple[Int64, Int64]:
        draws = np.arange(whole.n)
        parts = np.split(draws, range(_CHUNK, whole.n, _CHUNK))
        positions = np.concatenate([whole.positions(epoch, part) for part in parts])
        return draws, source.rows[positions]

    return PlannedDraws(whole.n, whole.n, drawn, whole)


class NextUse(Protocol):
    """When each block of a dataset is read next."""

    def after(self, blocks: Int64, moment: int) -> Int64:
        """The first moment behind ``moment`` that reads each of M blocks, (M,) int64, over all epochs.

        A block that neither this epoch nor the next one reads has the first moment after both.
        """


@dataclass(frozen=True, eq=False)
class InvertedOrder:
    """The :class:`NextUse` of an order that draws every row once, without a table of draws.

    It finds the next use of a block after each use. The inverse of an epoch's permutation gives the draws of
    the samples in the block, in this epoch and the next one.
    """

    order: FullShuffle | Sequential  # Draws every sample once in an epoch
    first: Int32  # (N,) int32, the block of each sample's first byte, ascending
    last: Int32  # (N,) int32, the block of its last byte, ascending

    def after(self, blocks: Int64, moment: int) -> Int64:
        """See :class:`NextUse`."""
        epoch, n = moment // self.order.n, self.order.n
        low = np.searchsorted(self.last, blocks, side="left")
        counts = np.searchsorted(self.first, blocks, side="right") - low
        starts = np.cumsum(counts) - counts
        rows = expand_ranges(low, low + counts)
        drawn = self._draws(epoch, rows)
        drawn = np.where(drawn > moment, drawn, self._draws(epoch + 1, rows))
        next_uses = np.full(len(blocks), (epoch + 2) * n, np.int64)
        held = counts > 0
        next_uses[held] = np.minimum.reduceat(drawn, starts[held]) if len(rows) else next_uses[held]
        return next_uses

    def _draws(self, epoch: int, rows: Int64) -> Int64:
        """The draw of each row in an epoch, counted over all epochs."""
        if isinstance(self.order, Sequential):
            return epoch * self.order.n + rows
        return epoch * self.order.n + Permutation(self.order.n, self.order.seed, epoch).inverse(rows)


@dataclass(frozen=True, eq=False)
class SortedUses:
    """The :class:`NextUse` of any draws: the uses of an epoch, sorted by block and moment."""

    draws: PlannedDraws  # The draws
    first: Int32  # (N,) int32, the block of the first byte of each sample, by its row
    last: Int32  # (N,) int32, the block of its last byte
    start: int  # Row of the first of these samples, counted through all datasets of a mixture
    _epochs: dict[int, Int64] = field(default_factory=dict)

    def after(self, blocks: Int64, moment: int) -> Int64:
        """See :class:`NextUse`."""
        moments = self.draws.moments
        epoch, in_epoch = divmod(moment, moments)
        next_uses = np.full(len(blocks), (epoch + 2) * moments, np.int64)
        for number, begin in ((epoch + 1, -1), (epoch, in_epoch)):
            uses, wanted = self._uses(number), blocks * moments + begin
            following = np.append(uses, -1)[np.searchsorted(uses, wanted, side="right")]
            same = following // moments == blocks
            next_uses[same] = number * moments + following[same] % moments
        for old in self._epochs.keys() - {epoch, epoch + 1}:
            del self._epochs[old]
        return next_uses

    def _uses(self, epoch: int) -> Int64:
        """(U,) int64, ``block * moments + moment`` of the uses of an epoch, ascending."""
        if epoch not in self._epochs:
            moment, rows = self.draws.drawn(epoch)
            of_dataset = (rows >= self.start) & (rows < self.start + len(self.first))
            moment, rows = moment[of_dataset], rows[of_dataset] - self.start
            first, end = self.first[rows].astype(np.int64), self.last[rows].astype(np.int64) + 1
            moments = np.repeat(moment, end - first)
            self._epochs[epoch] = np.sort(expand_ranges(first, end) * self.draws.moments + moments)
        return self._epochs[epoch]


def make_next_use(
    draws: PlannedDraws, first: Int64, last: Int64, start: int = 0, *, is_whole: bool = True
) -> NextUse | None:
    """Return the next uses of the blocks of a dataset; None if it is too large.

    :class:`SortedUses` explains the arguments; blocks are int64 here. ``is_whole`` says that all draws are
    from all rows of this dataset alone.
    """
    order, blocks = draws.order, (first.astype(np.int32), last.astype(np.int32))
    # Rows may have another order than their bytes.
    ascends = not ((np.diff(first) < 0).any() or (np.diff(last) < 0).any())
    is_whole = is_whole and ascends and len(first) <= _MOST_INVERTED
    if is_whole and isinstance(order, (FullShuffle, Sequential)):
        return InvertedOrder(order, *blocks)
    return SortedUses(draws, *blocks, start) if draws.count <= _MOST_SORTED else None
