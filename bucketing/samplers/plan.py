"""The batches of one epoch, on every rank, decided before a token is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

__all__ = ["Batch", "BatchPlan"]


class Batch(NamedTuple):
    """What one rank takes at one step.

    Attributes:
        rows: (n,) int64, rows of the dataset.
        shape: ``(n, length)``, or ``(n, length, length)`` for two lengths a sample; the same on
            every rank at this step.
    """

    rows: npt.NDArray[np.int64]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class BatchPlan:
    """Steps of one epoch; at each, ``world_size`` batches of one shape.

    The batches of a step are a group: rank r takes its samples r, r + world_size, and so on.

    Attributes:
        rows: (M,) int64, rows of all groups, in no particular order of steps.
        starts: (steps,) int64, where each step's group begins in ``rows``.
        sizes: (steps,) int64, rows of each group, a multiple of ``world_size``.
        valid: (steps,) int64, how many of a group's rows count; those after are repeated to fill it.
        lengths: (steps, D) int64, what each step's sequences are padded to.
        world_size: Number of ranks.
        seed: What the plan was drawn from.
        epoch: Likewise.
        history: (world size, steps done) of each earlier part of this epoch, where it was resumed
            on another number of ranks; ``rows`` then leaves out what those parts handed out.
    """

    rows: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    valid: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    world_size: int
    seed: int
    epoch: int
    history: tuple[tuple[int, int], ...] = ()

    def __len__(self) -> int:
        """Steps, the same number on every rank."""
        return len(self.starts)

    @property
    def num_samples(self) -> int:
        """Samples handed out over all ranks, without repeated ones."""
        return int(self.valid.sum())

    def batch(self, step: int, rank: int = 0) -> Batch:
        """The rows and the padded shape of one batch, in O(batch size).

        Args:
            step: 0 to ``len(plan) - 1``.
            rank: 0 to ``world_size - 1``.

        Raises:
            ConfigError: No such step or rank.
        """
        self._check(step, rank)
        start, size = self.starts[step], self.sizes[step]
        rows = self.rows[start + rank : start + size : self.world_size]
        return Batch(rows, (len(rows), *self.lengths[step].tolist()))

    def mask(self, step: int, rank: int = 0) -> npt.NDArray[np.bool_]:
        """(n,) bool, False for the rows of this batch that are repeated to fill it."""
        self._check(step, rank)
        return np.arange(rank, int(self.sizes[step]), self.world_size) < int(self.valid[step])

    def group(self, step: int) -> npt.NDArray[np.int64]:
        """(valid,) int64, rows of all ranks at one step, without repeated ones."""
        start = self.starts[step]
        return self.rows[start : start + self.valid[step]]

    def seen(self, steps: int) -> npt.NDArray[np.int64]:
        """Rows that the first ``steps`` steps hand out, over all ranks."""
        groups = [self.group(step) for step in range(min(steps, len(self)))]
        return np.concatenate([np.zeros(0, np.int64), *groups])

    def shapes(self) -> list[tuple[int, ...]]:
        """The distinct shapes of all batches, ascending: what a compiler has to see."""
        table = np.column_stack((self.sizes // self.world_size, self.lengths))
        return [tuple(shape) for shape in np.unique(table, axis=0).tolist()]

    def _check(self, step: int, rank: int) -> None:
        if not 0 <= step < len(self):
            raise ConfigError(f"step must be from 0 to {len(self) - 1}, not {step}")
        if not 0 <= rank < self.world_size:
            raise ConfigError(f"rank must be from 0 to {self.world_size - 1}, not {rank}")
