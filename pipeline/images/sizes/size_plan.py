"""The size and the number of samples of each batch, and the steps of an epoch that follow from them."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError
from stoker.types import Size

from ...execution.epochs.history import History
from ...execution.ranks.ranks import Ranks
from ...order.rank_draws import LastBatch, Schedule
from .aspect_buckets import AspectBuckets, BucketPlanner
from .padding import Padding
from .patches.patch_planner import PatchPlanner
from .patches.patches import Patches
from .ratio_groups import RatioGroupPlanner, RatioGroups
from .schedules import SizeSchedule

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SizedSchedule(Schedule):
    """Which draws of an epoch a rank receives at each of S steps, and the size of its images.

    ``batch_size`` is that of the largest batch.
    """

    _: KW_ONLY
    firsts: Int64  # (S,) int64, first draw of each step over all ranks
    batch_sizes: Int64  # (S,) int64, samples of each step's batch on one rank
    sizes: tuple[Size, ...]  # S heights and widths, pixels

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


@dataclass(frozen=True)
class SizePlan:
    """Decides which size the images of each batch have, and how many samples a batch has."""

    schedule: SizeSchedule | None  # Sizes of the images; None if the transforms leave one size
    # Samples of a batch on one rank at each of the schedule's sizes; one without a schedule
    batch_sizes: tuple[int, ...]
    seed: int  # Seed of the schedule
    pixels: int | None = None  # Pixels of a batch that decide the samples; None if the samples are fixed
    # How images of different sizes form a batch; None if all of a batch have one
    padding: Padding | None = None
    # The user's argument that a planner is made from once the dataset is known
    planner_options: AspectBuckets | Patches | RatioGroups | None = None
    # Plans the batches; None for batches that follow the order of the draws
    planner: BucketPlanner | PatchPlanner | RatioGroupPlanner | None = None

    @property
    def sizes(self) -> tuple[Size, ...]:
        """All sizes; empty if the transforms leave one."""
        decided = self.planner or self.schedule
        return decided.sizes if decided else ()

    @property
    def patch_planner(self) -> PatchPlanner | None:
        """The planner of packed rows of patches; None for batches of images."""
        return self.planner if isinstance(self.planner, PatchPlanner) else None

    @property
    def planned_by(self) -> str:
        """The plural name of :attr:`planner_options`, for messages."""
        return getattr(self.planner_options, "label", type(self.planner_options).__name__)

    @property
    def ragged(self) -> bool:
        """Whether images are handed out as a list."""
        return bool(self.padding and self.padding.ragged)

    @property
    def batch_size(self) -> int:
        """Samples of the largest batch on one rank."""
        return max(self.batch_sizes)

    @property
    def equal_epochs(self) -> bool:
        """Whether all epochs have the same number of steps."""
        if self.planner is not None:
            return not (self.patch_planner and self.patch_planner.captions)
        return len(set(self.batch_sizes)) == 1

    @property
    def needs(self) -> frozenset[str]:
        """What engines must be able to do beyond making images of few sizes."""
        by_step = self.planner is not None or (self.schedule is not None and self.schedule.every is not None)
        return frozenset({"sizes by step"} if by_step and len(self.sizes) > 1 else ())

    def __str__(self) -> str:
        """The samples of a batch, for a loader's repr."""
        return f"{self.pixels} pixels" if self.pixels else str(self.batch_size)

    def samples(self, steps: int | None, ranks: Ranks) -> int | None:
        """Draws of ``steps`` steps on all ranks; None if ``steps`` is None."""
        if steps is None:
            return None
        if self.planner_options:
            raise ConfigError(
                f"{self.planned_by} plan epochs of all samples, found steps_per_epoch",
                hint="Leave steps_per_epoch out.",
            )
        if not self.equal_epochs:
            raise ConfigError(
                "steps_per_epoch needs batches of a fixed number of samples, found pixels_per_batch",
                hint="Give batch_size instead, or leave steps_per_epoch out.",
            )
        return steps * self.batch_size * ranks.world_size

    def to_json(self) -> dict[str, Any] | None:
        """The sizes as a dictionary that JSON can hold, for states; None if all have one."""
        decides = self.schedule or self.planner or self.padding
        return decides.to_json() if decides else None

    def steps(
        self, n: int, ranks: Ranks, last_batch: LastBatch, *, epoch: int, start: int, history: History = ()
    ) -> Schedule:
        """The steps of an epoch of ``n`` draws, on one rank."""
        if self.planner:
            return self.planner.steps(ranks, epoch=epoch, start=start, history=history)
        common = (n, self.batch_size, ranks.rank, ranks.world_size, last_batch, start)
        if not self.schedule:
            return Schedule(*common)
        firsts, which = _steps(self, n, ranks.world_size, epoch, start)
        batch_sizes = np.array(self.batch_sizes, np.int64)[which]
        if last_batch == "drop" and len(which) and firsts[-1] + batch_sizes[-1] * ranks.world_size > n:
            firsts, which, batch_sizes = firsts[:-1], which[:-1], batch_sizes[:-1]
        sizes = tuple(self.sizes[one] for one in which.tolist())
        return SizedSchedule(*common, firsts=firsts, batch_sizes=batch_sizes, sizes=sizes)


@lru_cache(maxsize=16)
def _steps(plan: SizePlan, n: int, world_size: int, epoch: int, start: int) -> tuple[Int64, Int64]:
    """First draw of each step from the draw ``start`` on, (S,), and which size each has, (S,).

    The size of a step is that of the group of steps that its first draw belongs to. Groups begin at the same
    draws wherever an epoch is resumed.
    """
    assert plan.schedule is not None, "called with a schedule alone"
    samples = np.array(plan.batch_sizes, np.int64) * world_size
    every = plan.schedule.every or -(-n // int(samples.min()))
    groups = -(-n // (every * int(samples.min())))
    chosen = plan.schedule.choose(plan.seed, epoch, np.arange(groups))
    ends = np.minimum(np.cumsum(every * samples[chosen]), n)
    ends = ends[: int(np.searchsorted(ends, n)) + 1]
    firsts, which = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    at = start
    for group in range(int(np.searchsorted(ends, start, side="right")), len(ends)):
        count = -(-(int(ends[group]) - at) // int(samples[chosen[group]]))
        if count > 0:
            firsts.append(at + np.arange(count) * samples[chosen[group]])
            which.append(np.full(count, chosen[group]))
            at += count * int(samples[chosen[group]])
    return np.concatenate(firsts), np.concatenate(which)
