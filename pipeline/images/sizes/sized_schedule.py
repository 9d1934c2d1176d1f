"""The steps of a rank whose batches differ in their size and in their number of samples."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np
import numpy.typing as npt

from stoker.types import Size

from ...order.rank_draws import Schedule

Int64 = npt.NDArray[np.int64]

__all__ = ["SizedSchedule"]


@dataclass(frozen=True, eq=False)
class SizedSchedule(Schedule):
    """Which draws of an epoch a rank receives at each of S steps, and the size of its images.

    ``batch_size`` is that of the largest batch.

    Attributes:
        firsts: (S,) int64, first draw of each step over all ranks.
        batch_sizes: (S,) int64, samples of each step's batch on one rank.
        sizes: S heights and widths, pixels.
    """

    _: KW_ONLY
    firsts: Int64
    batch_sizes: Int64
    sizes: tuple[Size, ...]

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def last_is_empty(self) -> bool:
        """See :class:`Schedule`."""
        if self.last_batch != "partial" or not len(self):
            return False
        return bool(self.firsts[-1] + self.rank >= self.n)

    def size(self, step: int) -> Size:
        """Height and width of the images of a step, pixels."""
        return self.sizes[step]

    def draws(self, step: int) -> tuple[Int64, npt.NDArray[np.bool_]]:
        """See :class:`Schedule`."""
        return self.dealt(int(self.firsts[step]), int(self.batch_sizes[step]))

    def consumed(self, steps: int) -> int:
        """See :class:`Schedule`."""
        if not steps:
            return self.start
        last = int(self.firsts[steps - 1] + self.batch_sizes[steps - 1] * self.world_size)
        return min(self.n, last)
