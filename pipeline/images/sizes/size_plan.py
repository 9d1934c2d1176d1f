"""The size and the number of samples of each batch, and the steps of an epoch that follow from them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker.errors import ConfigError
from stoker.formats.dataset.dataset import Dataset

from ...execution.arguments import optional_number
from ...order.rank_draws import Schedule
from .aspect_buckets import AspectBuckets, BucketPlanner, image_sizes
from .padding import Padding
from .patch_planner import PatchPlanner
from .patches import Patches
from .schedules import make_schedule
from .sized_schedule import SizedSchedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from stoker.types import Size

    from ...execution.history import History
    from ...execution.ranks.ranks import Ranks
    from ...order.rank_draws import LastBatch
    from ...order.sample_source import SampleSource
    from ..bad_samples import OnError
    from .schedules import Sizes, SizeSchedule

    Int64 = npt.NDArray[np.int64]

__all__ = ["SizePlan", "make_size_plan", "with_planner"]


@dataclass(frozen=True)
class SizePlan:
    """Decides which size the images of each batch have, and how many samples a batch has.

    Attributes:
        schedule: Sizes of the images; None if the transforms leave one size.
        batch_sizes: Samples of a batch on one rank at each of the schedule's sizes; one without a schedule.
        seed: Seed of the schedule.
        pixels: Pixels of a batch that decide the samples; None if the samples are fixed.
        padding: How images of different sizes form a batch; None if all of a batch have one.
        given: The user's argument that a planner is made for once the dataset is known.
        planner: Plans the batches; None for batches that follow the order of the draws.
    """

    schedule: SizeSchedule | None
    batch_sizes: tuple[int, ...]
    seed: int
    pixels: int | None = None
    padding: Padding | None = None
    given: AspectBuckets | Patches | None = None
    planner: BucketPlanner | PatchPlanner | None = None

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
        return self.planner is not None or len(set(self.batch_sizes)) == 1

    @property
    def needs(self) -> frozenset[str]:
        """What engines must be able to do beyond making images of few sizes."""
        by_step = self.planner is not None or (self.schedule is not None and self.schedule.every is not None)
        return frozenset({"sizes by step"} if by_step and len(self.sizes) > 1 else ())

    def __str__(self) -> str:
        """The samples of a batch, for a loader's repr."""
        return f"{self.pixels} pixels" if self.pixels else str(self.batch_size)

    def samples(self, steps: int | None, ranks: Ranks) -> int | None:
        """Draws of ``steps`` steps on all ranks; None if there is no such number of steps.

        Raises:
            ConfigError: Steps differ in their samples.
        """
        if steps is None:
            return None
        if self.given:
            raise ConfigError(
                f"{type(self.given).__name__} plan epochs of all samples, found steps_per_epoch",
                hint="Leave steps_per_epoch out.",
            )
        if not self.equal_epochs:
            raise ConfigError(
                "steps_per_epoch goes with batches of as many samples each, found pixels_per_batch",
                hint="Give batch_size in its place, or leave steps_per_epoch out.",
            )
        return steps * self.batch_size * ranks.world_size

    def to_json(self) -> dict[str, Any] | None:
        """The sizes as a dictionary that JSON can hold, for states; None if all have one."""
        decides = self.schedule or self.planner or self.padding
        return decides.to_json() if decides else None

    def steps(
        self,
        n: int,
        ranks: Ranks,
        last_batch: LastBatch,
        *,
        epoch: int,
        start: int,
        history: History = (),
    ) -> Schedule:
        """The steps of an epoch of ``n`` draws, on one rank.

        Args:
            n: Draws in an epoch.
            ranks: This rank among all.
            last_batch: The loader's argument.
            epoch: Number of the epoch.
            start: Draws of the epoch that are done; steps with a planner.
            history: With a planner, the parts of the epoch before those on this number of ranks.
        """
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


def make_size_plan(
    sizes: Sizes | None,
    batch_size: int | None,
    pixels_per_batch: int | None,
    seed: int,
    multiple: int | None = None,
) -> SizePlan:
    """Check a loader's arguments for the sizes of batches; see :class:`stoker.ImageLoader`.

    Raises:
        ConfigError: An argument is wrong, or two arguments do not fit each other.
    """
    batch_size = optional_number("batch_size", batch_size, 1)
    pixels = optional_number("pixels_per_batch", pixels_per_batch, 1)
    if (batch_size is None) == (pixels is None):
        found = "neither" if batch_size is None else "both"
        raise ConfigError(
            f"a loader takes batch_size or pixels_per_batch, found {found}",
            hint="Give batch_size=64. With sizes that change, pixels_per_batch may take its place.",
        )
    padding = _make_padding(sizes, optional_number("multiple", multiple, 1))
    if isinstance(sizes, Patches) and batch_size is None:
        raise ConfigError(
            "Patches take batch_size, the packed rows of a batch, found pixels_per_batch",
            hint="Give batch_size; a row has as many pixels as its patches.",
        )
    if isinstance(sizes, (AspectBuckets, Patches)):
        padding = Padding(sizes.size) if isinstance(sizes, Patches) else None
        return SizePlan(None, (batch_size or 1,), seed, pixels, padding, given=sizes)
    schedule = None if sizes is None or isinstance(sizes, str) else make_schedule(sizes)
    if schedule is None and pixels is not None:
        raise ConfigError(
            "pixels_per_batch goes with sizes, which are missing", hint="Give batch_size, or sizes as well."
        )
    plan = SizePlan(schedule, (batch_size or 1,), seed, pixels, padding)
    return replace(plan, batch_sizes=_batch_sizes(plan, plan.sizes)) if schedule else plan


def with_planner(
    plan: SizePlan,
    dataset: SampleSource,
    *,
    shuffle: object,
    sampler: object,
    last_batch: LastBatch,
    on_error: OnError,
) -> SizePlan:
    """The plan with a planner for the images of a dataset, if the user's argument needs one.

    Args:
        plan: Of :func:`make_size_plan`.
        dataset: The heights and widths of its images decide the batches.
        shuffle: The loader's argument, as are the three that follow.
        sampler: Buckets and patches have none.
        last_batch: The loader's argument.
        on_error: Patches cannot replace samples.

    Raises:
        ConfigError: No shape suits, or the arguments do not go with buckets or patches.
    """
    if (given := plan.given) is None:
        return plan
    name = type(given).__name__
    if sampler is not None or not isinstance(shuffle, bool) or not isinstance(dataset, Dataset):
        raise ConfigError(
            f"{name} plan epochs of one dataset, found a sampler, a BlockShuffle or a mixture",
            hint="Give shuffle=True or False and one dataset; dataset.select(...) chooses samples.",
        )
    if not len(dataset):
        raise ConfigError(f"{name} need images, and the dataset has none", path=dataset.path)
    sizes = image_sizes(dataset)
    if isinstance(given, Patches):
        if on_error == "replace":
            raise ConfigError(
                "on_error='replace' puts an image of another size into a packed row",
                hint="Give on_error='skip', which leaves the place of a bad image empty.",
            )
        patches = PatchPlanner(given, sizes, plan.batch_size, plan.seed, shuffle, last_batch)
        return replace(plan, planner=patches)
    shapes = given.shapes(sizes)
    batch_sizes = _batch_sizes(plan, [(height, width) for height, width in shapes.tolist()])
    buckets = BucketPlanner(given, sizes, shapes, batch_sizes, plan.seed, shuffle, last_batch)
    return replace(plan, batch_sizes=batch_sizes, planner=buckets)


def _batch_sizes(plan: SizePlan, sizes: Sequence[Size]) -> tuple[int, ...]:
    """Samples of a batch of each size: the same for all, or as many as the pixels hold.

    Raises:
        ConfigError: The pixels hold no image.
    """
    if plan.pixels is None:
        return plan.batch_sizes * len(sizes)
    largest = max(sizes, key=math.prod)
    if plan.pixels < math.prod(largest):
        raise ConfigError(
            f"pixels_per_batch={plan.pixels} holds no image of {largest[0]} x {largest[1]} pixels",
            hint=f"Give at least {math.prod(largest)}.",
        )
    return tuple(plan.pixels // math.prod(size) for size in sizes)


def _make_padding(sizes: Sizes | None, multiple: int | None) -> Padding | None:
    """The padding that ``sizes`` and ``multiple`` describe; None for sizes that batches have in common."""
    if isinstance(sizes, str) and sizes not in ("padded", "ragged"):
        raise ConfigError(
            f"sizes must be 'padded', 'ragged', sizes by epoch, RandomSizes, AspectBuckets or Patches, "
            f"found {sizes!r}"
        )
    if multiple is not None and sizes != "padded":
        raise ConfigError(
            f"multiple={multiple} goes with sizes='padded'",
            hint="Leave multiple out, or give sizes='padded'.",
        )
    if not isinstance(sizes, str):
        return None
    return Padding(multiple or 1, ragged=sizes == "ragged")
