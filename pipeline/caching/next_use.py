"""When each block of a cache is read next, from the draws of a loader: a cache evicts what it needs last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from stoker.formats.dataset.columns import expand_ranges

from ..order.orders import Order, Stream
from ..order.sampling import SampleSource

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]

STEPS = 1 << 32
"""Moments of an epoch that is planned by steps: more than any epoch has."""

_CHUNK = 1 << 16  # draws that are ordered at once
_MOST = 20_000_000  # draws of an epoch; each takes eight bytes or more, in two epochs


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


def draws_of_order(order: Order, source: SampleSource) -> PlannedDraws:
    """Return the draws of an order from a source; the number of a draw is its moment."""
    whole = order.order if isinstance(order, Stream) else order  # whose moments over all epochs are the same

    def drawn(epoch: int) -> tuple[Int64, Int64]:
        draws = np.arange(whole.n)
        parts = np.split(draws, range(_CHUNK, whole.n, _CHUNK))
        positions = np.concatenate([whole.positions(epoch, part) for part in parts])
        return draws, source.rows[positions]

    return PlannedDraws(whole.n, whole.n, drawn)


@dataclass(frozen=True, eq=False)
class NextUse:
    """The uses of the blocks of one dataset, sorted by block and moment."""

    draws: PlannedDraws
    first: Int32  # (N,) int32, the block of the first byte of each sample, by its row
    last: Int32  # (N,) int32, the block of its last byte
    start: int  # Row of the first of these samples, counted through all datasets of a mixture
    _epochs: dict[int, Int64] = field(default_factory=dict)

    def after(self, blocks: Int64, moment: int) -> Int64:
        """The first moment behind ``moment`` that reads each of M blocks, (M,) int64, over all epochs."""
        # A block that neither this epoch nor the next one reads has the first moment after both.
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


def make_next_use(draws: PlannedDraws, first: Int64, last: Int64, start: int = 0) -> NextUse | None:
    """Return the next uses of blocks, as :class:`NextUse` takes them; None if there are too many draws."""
    if draws.count > _MOST:
        return None
    return NextUse(draws, first.astype(np.int32), last.astype(np.int32), start)
