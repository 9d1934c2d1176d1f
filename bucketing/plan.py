"""The plan of an epoch: the batches of every rank at every step, made before a token is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stoker.arguments import whole_number
from stoker.random import philox_permutation

Int64 = npt.NDArray[np.int64]


def check_seed(seed: int, epoch: int) -> None:
    """Raise ConfigError unless ``seed`` has 64 bits and ``epoch`` has 32."""
    whole_number("seed", seed, 0, (1 << 64) - 1)
    whole_number("epoch", epoch, 0, (1 << 32) - 1)


def narrowed(numbers: Int64, end: int) -> npt.NDArray[Any]:
    """Return numbers from 0 to ``end - 1`` as int32 if they fit, which halves the memory of plans."""
    dtype = np.int32 if end <= 1 << 31 else np.int64
    if len(numbers) and numbers.strides == (0,):  # one number for all, which takes no memory
        return np.broadcast_to(numbers[:1].astype(dtype), numbers.shape)
    return numbers.astype(dtype, copy=False)


def random_order(
    size: int, seed: int, epoch: int, stream: int, within: npt.NDArray[np.uint16] | None = None
) -> npt.NDArray[Any]:
    """Return a random permutation of 0 to size - 1, a function of the three numbers; sorted by ``within``."""
    # within (size,) uint16 -> (size,) int32, or int64 if needed
    order = narrowed(philox_permutation(size, epoch << 96 | stream << 64 | seed), size)
    return order if within is None else order[np.argsort(within[order], kind="stable")]


class Batch(NamedTuple):
    """The batch of one rank at one step.

    Attributes:
        rows: (n,) int64, numbers of what was batched: samples, or a loader's draws or packed rows.
        shape: ``(n, length)``, or ``(n, length, length)`` for two lengths in each sample; the same on
            every rank at this step.
    """

    rows: Int64
    shape: tuple[int, ...]


@dataclass(frozen=True)
class BatchPlan:
    """The steps of one epoch, each with ``world_size`` batches of one shape.

    The batches of a step form a group: rank r takes the rows r, r + world_size, and so on of the group.

    Attributes:
        rows: (M,) int64, the rows of all groups; groups are not in the order of steps. A loader holds them as
            int32.
        starts: (steps,) int64, the start of each step's group in ``rows``.
        sizes: (steps,) int64, the number of rows in each group, a multiple of ``world_size``.
        valid: (steps,) int64, the number of rows in each group before the repeated rows that fill it.
        lengths: (steps, D) int64, the padded lengths of each step.
        world_size: Number of ranks.
        seed: Seed of the sampler.
        epoch: Number of the epoch.
        history: (world size, steps done) of each earlier part of this epoch, if the epoch was resumed on
            another number of ranks; ``rows`` then lacks the rows of those parts.
    """

    rows: npt.NDArray[Any]
    starts: Int64
    sizes: Int64
    valid: Int64
    lengths: Int64
    world_size: int
    seed: int
    epoch: int
    history: tuple[tuple[int, int], ...] = ()

    def __len__(self) -> int:
        """Number of steps, which is the same on every rank."""
        return len(self.starts)

    @property
    def num_samples(self) -> int:
        """Number of samples of all ranks, without repeated ones."""
        return int(self.valid.sum())

    def batch(self, step: int, rank: int = 0) -> Batch:
        """Return the rows and the padded shape of one batch, in time O(batch size).

        Args:
            step: 0 to ``len(plan) - 1``.
            rank: 0 to ``world_size - 1``.

        Raises:
            ConfigError: There is no such step or rank.
        """
        whole_number("step", step, 0, len(self) - 1)
        whole_number("rank", rank, 0, self.world_size - 1)
        start, size = self.starts[step], self.sizes[step]
        rows = self.rows[start + rank : start + size : self.world_size].astype(np.int64, copy=False)
        return Batch(rows, (len(rows), *self.lengths[step].tolist()))

    def mask(self, step: int, rank: int = 0) -> npt.NDArray[np.bool_]:
        """Return (n,) bool: False for the repeated rows that fill this batch."""
        whole_number("step", step, 0, len(self) - 1)
        whole_number("rank", rank, 0, self.world_size - 1)
        return np.arange(rank, int(self.sizes[step]), self.world_size) < int(self.valid[step])

    def batches(self, rank: int = 0) -> RankBatches:
        """Return the batches of a rank, which PyTorch's ``DataLoader`` takes as its ``batch_sampler``.

        They belong to this epoch whatever ``set_epoch`` says; see :meth:`BatchSampler.batches` for others.

        Raises:
            ConfigError: There is no such rank.
        """
        return RankBatches(lambda _: self, self.world_size, rank)

    def dealt(self, world_size: int) -> BatchPlan:
        """Return the same groups for other ranks; each group repeats fewer rows than there are ranks."""
        sizes = -(-self.valid // world_size) * world_size
        starts = np.cumsum(sizes) - sizes
        index = np.arange(sizes.sum()) - np.repeat(starts, sizes)
        rows = self.rows[np.repeat(self.starts, sizes) + index % np.repeat(self.valid, sizes)]
        return replace(self, rows=rows, starts=starts, sizes=sizes, world_size=world_size)

    def group(self, step: int) -> Int64:
        """Return (valid,) int64, the rows of all ranks at one step, without repeated ones."""
        start = self.starts[step]
        return np.asarray(self.rows[start : start + self.valid[step]], np.int64)

    def seen(self, steps: int) -> Int64:
        """Return the rows of all ranks in the first ``steps`` steps, without repeated ones."""
        groups = [self.group(step) for step in range(min(steps, len(self)))]
        return np.concatenate([np.zeros(0, np.int64), *groups])

    def shapes(self) -> list[tuple[int, ...]]:
        """Return the distinct shapes of all batches, ascending, which a compiler has to see."""
        table = np.column_stack((self.sizes // self.world_size, self.lengths))
        return [tuple(shape) for shape in np.unique(table, axis=0).tolist()]


class RankBatches:
    """The batches of one rank, for ``DataLoader(dataset, batch_sampler=...)`` of PyTorch.

    Each iteration yields the batches of one epoch, which :meth:`set_epoch` chooses as for PyTorch's
    ``DistributedSampler``. The plan of an epoch is made when it is needed, and kept until another is.

    Args:
        make_plan: Returns the plan of an epoch.
        world_size: Number of ranks.
        rank: The rank.

    Raises:
        ConfigError: There is no such rank.
    """

    def __init__(self, make_plan: Callable[[int], BatchPlan], world_size: int, rank: int) -> None:
        self._make_plan = make_plan
        self._rank = whole_number("rank", rank, 0, world_size - 1)
        self._epoch = 0
        self._plan: BatchPlan | None = None

    @property
    def plan(self) -> BatchPlan:
        """The plan of the epoch, which has the padded length of each batch."""
        if self._plan is None or self._plan.epoch != self._epoch:
            self._plan = self._make_plan(self._epoch)
        return self._plan

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next iteration, from 0."""
        self._epoch = whole_number("epoch", epoch, 0)

    def __len__(self) -> int:
        """Number of batches of the epoch, which is the same on every rank."""
        return len(self.plan)

    def __iter__(self) -> Iterator[list[int]]:
        plan = self.plan
        for step in range(len(plan)):
            yield plan.batch(step, self._rank).rows.tolist()
