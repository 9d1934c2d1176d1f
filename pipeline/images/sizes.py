"""The sizes of image batches: the height, the width and the samples of each batch of an epoch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from stoker.arguments import whole_number
from stoker.augment.transforms.base import as_tuple, is_count
from stoker.bucketing.aspect_shapes import nearest_shapes, ratio_groups
from stoker.errors import ConfigError
from stoker.formats.dataset.dataset import Dataset
from stoker.random import hash_words, unit_interval
from stoker.types import Size

from ..execution.ranks import Process
from ..execution.state import History
from ..options import OnError, Padded, Pixels, Ragged
from ..order.sampling import SampleSource
from ..order.schedule import LastBatch, OrderedSteps, Schedule
from .planners import AspectBuckets, AspectPlanner, Patches, PatchPlanner, image_sizes

if TYPE_CHECKING:
    from .captions import Captions

Int64 = npt.NDArray[np.int64]

_HINT = "Give {0: 160, 10: 192}, sizes by the first epoch that has them, or RandomSizes(320, 608)."


@dataclass(frozen=True)
class EpochSizes:
    """Sizes by epoch, as in progressive resizing; has what :class:`RandomSizes` has."""

    sizes: tuple[Size, ...]  # Heights and widths, pixels
    epochs: tuple[int, ...]  # First epoch that has each size, ascending from 0
    every = None

    def choose(self, seed: int, epoch: int, groups: Int64) -> Int64:
        return np.full(len(groups), np.searchsorted(self.epochs, epoch, side="right") - 1, np.int64)

    def to_json(self) -> dict[str, Any]:
        return {str(epoch): list(size) for epoch, size in zip(self.epochs, self.sizes, strict=True)}


@dataclass(frozen=True)
class RandomSizes:
    """Square images whose side is drawn again every few steps, as YOLO trains (Redmon and Farhadi, 2016).

    The side is a function of the loader's seed, the epoch and the step, so all ranks have the same one.

    Args:
        low: Least side, pixels.
        high: Largest side, pixels.
        step: Distance of two sides that follow each other, pixels; it divides ``high - low``.
        every: Steps that have one side before the next is drawn.
    """

    low: int
    high: int
    step: int = 32
    every: int = 10

    def __post_init__(self) -> None:
        for name in ("low", "high", "step", "every"):
            object.__setattr__(self, name, whole_number(f"RandomSizes: {name}", getattr(self, name), 1))
        if self.low > self.high or (self.high - self.low) % self.step:
            raise ConfigError(
                f"RandomSizes: steps of {self.step} do not lead from {self.low} to {self.high}",
                hint="Choose low <= high, and a step that divides high - low.",
            )

    @property
    def sizes(self) -> tuple[Size, ...]:
        """All sizes, height and width in pixels."""
        return tuple((side, side) for side in range(self.low, self.high + 1, self.step))

    def choose(self, seed: int, epoch: int, groups: Int64) -> Int64:
        """Indices into :attr:`sizes`, (G,), for groups of ``every`` steps, (G,) numbers in the epoch."""
        u = unit_interval(hash_words((seed, epoch, _SIZES), groups))
        return (u * len(self.sizes)).astype(np.int64)

    def to_json(self) -> dict[str, Any]:
        """All that decides the sizes, as a dictionary that JSON can hold."""
        return {"random": asdict(self)}


Sizes = (
    Mapping[int, "int | tuple[int, int]"]
    | RandomSizes
    | AspectBuckets
    | Patches
    | Padded
    | Ragged
    | Literal["padded", "ragged"]
)
"""The loader's argument ``sizes``."""

_SIZES = int.from_bytes(b"sizes", "little")
"""Word that keys the sizes of steps, apart from the orders of samples."""


def _epoch_sizes(sizes: Mapping[int, int | tuple[int, int]]) -> EpochSizes:
    epochs = sorted(whole_number("an epoch in sizes", epoch, 0) for epoch in sizes)
    if not epochs or epochs[0] != 0:
        raise ConfigError(f"sizes must say the size of epoch 0, found {dict(sizes)!r}", hint=_HINT)
    return EpochSizes(tuple(_size(sizes[epoch]) for epoch in epochs), tuple(epochs))


def _size(value: object) -> Size:
    pair = as_tuple(value, 2)
    if len(pair) != 2 or not all(map(is_count, pair)):
        raise ConfigError(
            f"a size must be a positive integer or a pair (height, width) of them, found {value!r}",
            hint=_HINT,
        )
    return int(pair[0]), int(pair[1])


@dataclass(frozen=True, eq=False)
class SizedSteps(OrderedSteps):
    """The draws of a rank at each of S steps, and the size of their images; ``batch_size`` is the largest."""

    _: KW_ONLY
    firsts: Int64  # (S,) int64, first draw of each step over all ranks
    batch_sizes: Int64  # (S,) int64, samples of each step's batch on one rank
    sizes: tuple[Size, ...]  # S heights and widths, pixels

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def last_is_empty(self) -> bool:
        if self.last_batch != "partial" or not len(self):
            return False
        return bool(self.firsts[-1] + self.rank >= self.n)

    def size(self, step: int) -> Size:
        return self.sizes[step]

    def draws(self, step: int) -> tuple[Int64, npt.NDArray[np.bool_]]:
        return self.dealt(int(self.firsts[step]), int(self.batch_sizes[step]))

    def consumed(self, steps: int) -> int:
        if not steps:
            return self.start
        last = int(self.firsts[steps - 1] + self.batch_sizes[steps - 1] * self.world_size)
        return min(self.n, last)


@dataclass(frozen=True)
class SizePlan:
    """Decides which size the images of each batch have, and how many samples a batch has."""

    # Samples of a batch on one rank at each of the schedule's sizes; one without a schedule
    batch_sizes: tuple[int, ...]
    seed: int  # Seed of the schedule
    schedule: EpochSizes | RandomSizes | None = None  # None if the transforms leave one size
    pixels: int | None = None  # Pixels of a batch that decide the samples; None if the samples are fixed
    # How images of different sizes form a batch; None if all images of a batch have one size
    padding: Padded | Ragged | None = None
    # The user's argument that a planner is made from once the dataset is known
    planned_by: AspectBuckets | Patches | Padded | Ragged | None = None
    # Plans the batches; None for batches that follow the order of the draws
    planner: AspectPlanner | PatchPlanner | None = None

    @property
    def sizes(self) -> tuple[Size, ...]:
        """All sizes; empty if the transforms leave one."""
        decided = self.planner or self.schedule
        return decided.sizes if decided else ()

    @property
    def patch_planner(self) -> PatchPlanner | None:
        """The planner of packed rows of patches; None for image batches."""
        return self.planner if isinstance(self.planner, PatchPlanner) else None

    @property
    def planned_in(self) -> str:
        """What plans the batches, in the plural, for messages."""
        padded = isinstance(self.planned_by, (Padded, Ragged))
        return "Groups of aspect ratios" if padded else type(self.planned_by).__name__

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

    def samples(self, steps: int | None, ranks: Process) -> int | None:
        """Draws of ``steps`` steps on all ranks; None if ``steps`` is None."""
        if steps is None:
            return None
        if self.planned_by:
            raise ConfigError(
                f"{self.planned_in} plan epochs of all samples, found steps_per_epoch",
                hint="Leave steps_per_epoch out.",
            )
        if not self.equal_epochs:
            raise ConfigError(
                "steps_per_epoch needs batches of a fixed number of samples, found Pixels",
                hint="Give batch_size instead, or leave steps_per_epoch out.",
            )
        return steps * self.batch_size * ranks.world_size

    def to_json(self) -> dict[str, Any] | None:
        """The sizes as a dictionary that JSON can hold, for states; None if all have one."""
        if decides := self.schedule or self.planner:
            return decides.to_json()
        return _padding_to_json(self.padding) if self.padding else None

    def steps(
        self, n: int, ranks: Process, last_batch: LastBatch, *, epoch: int, start: int, history: History = ()
    ) -> Schedule:
        """The steps of an epoch of ``n`` draws, on one rank."""
        if self.planner:
            return self.planner.steps(ranks, epoch=epoch, start=start, history=history)
        common = (n, self.batch_size, ranks.rank, ranks.world_size, last_batch, start)
        if not self.schedule:
            return OrderedSteps(*common)
        firsts, which = _steps(self, n, ranks.world_size, epoch, start)
        batch_sizes = np.array(self.batch_sizes, np.int64)[which]
        if last_batch == "drop" and len(which) and firsts[-1] + batch_sizes[-1] * ranks.world_size > n:
            firsts, which, batch_sizes = firsts[:-1], which[:-1], batch_sizes[:-1]
        sizes = tuple(self.sizes[one] for one in which.tolist())
        return SizedSteps(*common, firsts=firsts, batch_sizes=batch_sizes, sizes=sizes)


@lru_cache(maxsize=16)
def _steps(plan: SizePlan, n: int, world_size: int, epoch: int, start: int) -> tuple[Int64, Int64]:
    """First draw of each step from the draw ``start`` on, (S,), and which size each has, (S,)."""
    # The size of a step is that of the group of steps that its first draw belongs to. Groups begin at the
    # same draws wherever an epoch is resumed.
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


def make_size_plan(sizes: Sizes | None, batch_size: int | Pixels, seed: int) -> SizePlan:
    """Check a loader's arguments for the sizes of batches; see :class:`stoker.ImageLoader`."""
    given: Any = sizes
    if isinstance(sizes, str):
        given = {"padded": Padded(), "ragged": Ragged()}.get(sizes, sizes)
    pixels = batch_size.number if isinstance(batch_size, Pixels) else None
    samples = 1 if isinstance(batch_size, Pixels) else whole_number("batch_size", batch_size, 1)
    if pixels is not None and isinstance(given, Patches):
        raise ConfigError(
            "Patches take batch_size, the packed rows of a batch, found Pixels",
            hint="Give batch_size; a row has as many pixels as its patches.",
        )
    if pixels is not None and (given is None or isinstance(given, (Padded, Ragged))):
        raise ConfigError(
            "batch_size=Pixels(...) goes with sizes, which are missing",
            hint="Give batch_size=64, or sizes as well.",
        )
    plan = SizePlan((samples,), seed, pixels=pixels)
    if given is None:
        return plan
    if isinstance(given, AspectBuckets):
        return replace(plan, planned_by=given)
    if isinstance(given, Patches):
        return replace(plan, planned_by=given, padding=Padded(given.size))
    if isinstance(given, (Padded, Ragged)):
        grouped = given.aspect_ratio_group_factor is not None
        return replace(plan, planned_by=given if grouped else None, padding=given)
    if isinstance(given, Mapping):
        given = _epoch_sizes(given)
    if not isinstance(given, (EpochSizes, RandomSizes)):
        raise ConfigError(
            "sizes must be 'padded', 'ragged', Padded, Ragged, sizes by epoch, RandomSizes, AspectBuckets or "
            f"Patches, found {sizes!r}",
            hint=_HINT,
        )
    return replace(plan, schedule=given, batch_sizes=_batch_sizes(plan, given.sizes))


def with_planner(
    plan: SizePlan,
    dataset: SampleSource,
    *,
    shuffle: object,
    sampler: object,
    last_batch: LastBatch,
    on_error: OnError,
) -> SizePlan:
    """The plan with a planner for the images of a dataset, if the user's argument needs one."""
    if (options := plan.planned_by) is None:
        return plan
    name = plan.planned_in
    if sampler is not None or not isinstance(shuffle, bool) or not isinstance(dataset, Dataset):
        raise ConfigError(
            f"{name} plan epochs of one dataset, found a sampler, a BlockShuffle or a mixture",
            hint="Give shuffle=True or False and one dataset; dataset.select(...) chooses samples.",
        )
    if not len(dataset):
        raise ConfigError(f"{name} need images, and the dataset has none", path=dataset.path)
    sizes, batch_size = image_sizes(dataset), plan.batch_size
    common = (sizes, plan.seed, shuffle, last_batch)
    if isinstance(options, Patches):
        if on_error == "replace":
            raise ConfigError(
                "on_error='replace' would put an image of another size into a packed row",
                hint="Give on_error='skip', which leaves bad images out of their rows.",
            )
        decides = {"patches": asdict(options), "batch_size": batch_size}
        return replace(plan, planner=PatchPlanner(*common, decides, options, batch_size))
    if isinstance(options, AspectBuckets):
        shapes = options.shapes(sizes)
        batch_sizes = _batch_sizes(plan, [(height, width) for height, width in shapes.tolist()])
        decides = {"buckets": asdict(options), "shapes": shapes.tolist(), "batch_sizes": list(batch_sizes)}
        groups = nearest_shapes(sizes, shapes)
        planner = AspectPlanner(*common, decides, groups, batch_sizes, shapes)
        return replace(plan, batch_sizes=batch_sizes, planner=planner)
    factor = options.aspect_ratio_group_factor or 0
    groups = ratio_groups(sizes, factor)
    decides = {**_padding_to_json(options), "aspect_ratio_group_factor": factor, "batch_size": batch_size}
    batch_sizes = (batch_size,) * (int(groups.max()) + 1)
    return replace(plan, planner=AspectPlanner(*common, decides, groups, batch_sizes))


def _padding_to_json(padding: Padded | Ragged) -> dict[str, Any]:
    return {"ragged": True} if isinstance(padding, Ragged) else {"padded": padding.pad_to_multiple_of}


def with_captions(plan: SizePlan, captions: Captions | None, draw_seed: int) -> SizePlan:
    """The plan whose packed rows of patches also hold the captions of their images, if there are any."""
    if captions is None:
        return plan
    form, planner = captions.tokens.form, plan.patch_planner
    if (form == "packed") != (planner is not None):
        raise ConfigError(
            f"Tokens(form='packed') and sizes=Patches(...) go together, found form={form!r}"
            + (" with Patches" if planner else " without Patches"),
            hint="Give caption=Tokens(max_length=77, form='packed', row=256) with sizes=Patches(...).",
        )
    return (
        replace(plan, planner=replace(planner, captions=captions, draw_seed=draw_seed)) if planner else plan
    )


def _batch_sizes(plan: SizePlan, sizes: Sequence[Size]) -> tuple[int, ...]:
    """Samples of a batch of each size: the same for all, or as many as the pixels hold."""
    if plan.pixels is None:
        return plan.batch_sizes * len(sizes)
    largest = max(sizes, key=math.prod)
    if plan.pixels < math.prod(largest):
        raise ConfigError(
            f"Pixels({plan.pixels}) holds no image of {largest[0]} x {largest[1]} pixels",
            hint=f"Give at least {math.prod(largest)}.",
        )
    return tuple(plan.pixels // math.prod(size) for size in sizes)
