"""The next use of cached blocks, which the order of the draws tells: a cache evicts what is needed last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..order.changes.substitutes import original
from ..order.epoch_order import FullShuffle, Sequential
from ..order.permutation import Permutation

if TYPE_CHECKING:
    import numpy.typing as npt

    Int64 = npt.NDArray[np.int64]

__all__ = ["NextUse", "make_next_use"]

_MOST = 50_000_000  # samples; the table of their blocks takes eight bytes for each


@dataclass(frozen=True, eq=False)
class NextUse:
    """When each block of a dataset is read next.

    The next use of a block is fixed while it is not used, so it is found once for each use: by the draws of
    the samples that lie in it, in this epoch and the next one. They are computed from the inverse of the
    epoch's permutation, without a table of draws.

    Attributes:
        order: Draws every sample once in an epoch.
        first: (N,) int32, the block of each sample's first byte, ascending.
        last: (N,) int32, the block of its last byte, ascending.
    """

    order: FullShuffle | Sequential
    first: npt.NDArray[np.int32]
    last: npt.NDArray[np.int32]

    def after(self, blocks: Int64, draw: int) -> Int64:
        """The first draw behind ``draw`` that reads each of M blocks, (M,) int64, counted over all epochs."""
        epoch, n = draw // self.order.n, self.order.n
        low = np.searchsorted(self.last, blocks, side="left")
        counts = np.searchsorted(self.first, blocks, side="right") - low
        starts = np.cumsum(counts) - counts
        rows = np.arange(int(counts.sum())) + np.repeat(low - starts, counts)
        drawn = self._draws(epoch, rows)
        drawn = np.where(drawn > draw, drawn, self._draws(epoch + 1, rows))
        found = np.full(len(blocks), (epoch + 2) * n, np.int64)
        held = counts > 0
        found[held] = np.minimum.reduceat(drawn, starts[held]) if len(rows) else found[held]
        return found

    def _draws(self, epoch: int, rows: Int64) -> Int64:
        """The draw of each row in an epoch, counted over all epochs."""
        if isinstance(self.order, Sequential):
            return epoch * self.order.n + rows
        return epoch * self.order.n + Permutation(self.order.n, self.order.seed, epoch).inverse(rows)


def make_next_use(order: Any, first: Int64, last: Int64) -> NextUse | None:
    """Return the next uses of blocks; None for orders that draw samples several times or in blocks.

    Args:
        order: The order of the draws, of all samples of one dataset.
        first: (N,) int64, the block of each sample's first byte, by row.
        last: (N,) int64, that of its last byte.
    """
    order = original(order)
    if not isinstance(order, (FullShuffle, Sequential)) or order.n != len(first) or order.n > _MOST:
        return None
    if (np.diff(first) < 0).any() or (np.diff(last) < 0).any():
        return None  # rows lie in another order than their bytes
    return NextUse(order, first.astype(np.int32), last.astype(np.int32))
