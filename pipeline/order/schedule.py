"""The draws that each rank receives at each step of an epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError
from stoker.types import Size

LastBatch = Literal["drop", "pad", "partial"]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Schedule:
    """Which draws of an epoch a rank receives at each step.

    Step s has the global batch of draws ``[start + s * G, start + (s + 1) * G)`` with
    ``G = batch_size * world_size``; rank r receives every ``world_size``-th of them, from the r-th on. So
    the global batch does not depend on the number of ranks that share it, every rank has the same number of
    steps, and any number of ranks can go on with an epoch at any draw.
    """

    n: int  # Draws in an epoch
    batch_size: int  # Samples in a batch of one rank
    rank: int = 0  # This rank
    world_size: int = 1  # Number of ranks
    # What happens to a short last global batch: "drop" leaves it out, "pad" fills it with masked draws from
    # the start of the epoch, and "partial" hands it out as it is (a rank may receive nothing if it has fewer
    # draws than there are ranks)
    last_batch: LastBatch = "partial"
    start: int = 0  # First draw of the first step

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ConfigError(f"batch_size must be at least 1, found {self.batch_size}")
        if not 0 <= self.rank < self.world_size:
            raise ConfigError(f"rank must be in 0..world_size-1, found rank {self.rank} of {self.world_size}")
        if self.last_batch not in ("drop", "pad", "partial"):
            raise ConfigError(f"last_batch must be 'drop', 'pad' or 'partial', found {self.last_batch!r}")
        if not 0 <= self.start <= self.n:
            raise ConfigError(f"start must be in 0..{self.n}, found {self.start}")

    @property
    def global_batch(self) -> int:
        """Draws in a step over all ranks."""
        return self.batch_size * self.world_size

    def __len__(self) -> int:
        left = self.n - self.start
        return left // self.global_batch if self.last_batch == "drop" else -(-left // self.global_batch)

    @property
    def last_is_empty(self) -> bool:
        """Whether this rank receives no sample at the last step, and another rank does."""
        return self.last_batch == "partial" and 0 < (self.n - self.start) % self.global_batch <= self.rank

    def size(self, step: int) -> Size | None:
        """Height and width of the images of a step, pixels; None if the transforms decide it."""
        return None

    def groups(self, step: int) -> Int64 | None:
        """First of this rank's draws in each packed row of a step, and their number; None without packing."""
        return None

    def draws(self, step: int) -> tuple[Int64, npt.NDArray[np.bool_]]:
        """Draws of this rank at ``step``, (M,) int64, and whether each is real and not padding, (M,) bool."""
        return self.dealt(self.start + step * self.global_batch, self.batch_size)

    def dealt(self, first: int, count: int) -> tuple[Int64, npt.NDArray[np.bool_]]:
        """This rank's ``count`` draws of a step whose first draw is ``first``; see :meth:`draws`."""
        draws = first + self.rank + self.world_size * np.arange(count, dtype=np.int64)
        real = draws < self.n
        if self.last_batch == "pad":
            return draws % self.n, real
        return draws[real], np.ones(int(real.sum()), dtype=np.bool_)

    def shown_at(self, steps: Int64, draws: Int64, mask: npt.NDArray[np.bool_]) -> Int64:
        """The points of the epoch at which draws are shown, (M,) int64, as exclusions count them."""
        # steps (M,) int64, draws (M,) int64, mask (M,) bool
        return np.where(mask, draws, self.n - 1)  # padding repeats draws at the end of the epoch

    def consumed(self, steps: int) -> int:
        """Draws of the epoch that the ranks have received after ``steps`` steps."""
        return min(self.n, self.start + steps * self.global_batch)
