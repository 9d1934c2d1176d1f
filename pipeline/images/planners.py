"""Planners, which decide the images of each batch from the heights and widths in the index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.arguments import optional_number, whole_number
from stoker.augment.transforms.base import Transform, is_finite
from stoker.augment.transforms.crops import CoverCrop
from stoker.bucketing import BatchPlan, PackingPlan
from stoker.bucketing.aspect_shapes import AspectSampler, best_shapes, candidate_shapes
from stoker.bucketing.samplers import BatchSampler
from stoker.errors import ConfigError
from stoker.formats.dataset.dataset import Dataset
from stoker.types import Layout, Size

from ..execution.ranks import Process
from ..execution.state import History
from ..order.exclusions import Fitting
from ..order.schedule import EpochCache, LastBatch, PlannedSteps
from .batch_transforms import Transforms

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ImagePlanner:
    """A planner of an epoch: it decides which images form each batch. Every rank makes the same plan."""

    image_sizes: Int64  # (N, 2) int64, heights and widths of the images
    seed: int  # Seed of the batches
    shuffle: bool  # Whether each epoch has other batches in another order
    last_batch: LastBatch  # The loader's argument
    decides: dict[str, Any]  # What else decides the batches, as JSON data
    _: KW_ONLY
    _plans: EpochCache[tuple[int, int, History], BatchPlan] = field(default_factory=EpochCache)

    @property
    def sizes(self) -> tuple[Size, ...]:
        """Heights and widths of all batches; empty if the images of a batch decide its size."""
        return ()

    @property
    def fitting(self) -> Fitting:
        """The rule that says which images may replace an image in a planned batch."""
        raise NotImplementedError

    def prepared(self, transforms: Transforms) -> Transforms:
        """The user's transforms, together with the transforms that the plan needs."""
        return transforms

    def layout(self, layout: Layout) -> Layout:
        return layout

    def sampler(self, world_size: int, epoch: int) -> BatchSampler:
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        return {**self.decides, "shuffle": self.shuffle, "last_batch": self.last_batch}

    def plan(self, ranks: Process, epoch: int, history: History) -> BatchPlan:
        """The batches of an epoch after the batches of ``history``."""
        key = (ranks.world_size, epoch, history)
        return self._plans.get(key, lambda _: self.sampler(ranks.world_size, epoch).plan(epoch, history))

    def packing(self, epoch: int) -> PackingPlan | None:
        """The images of each row of an epoch's plan; None if the rows of the plan are images."""
        return None

    def steps(self, ranks: Process, *, epoch: int, start: int, history: History) -> PlannedSteps:
        """The steps of a rank from the step ``start`` on, of an epoch or of its rest after ``history``."""
        plan, n = self.plan(ranks, epoch, history), len(self.image_sizes)
        return PlannedSteps(plan, ranks.rank, start, n, self.packing(epoch), sized=bool(self.sizes))

    def sampling(self, world_size: int) -> dict[str, Any]:
        """The arguments that all samplers take."""
        return {
            "seed": self.seed % (1 << 64),
            "world_size": world_size,
            "membership": "fresh" if self.shuffle else "ordered",
            "shuffle": self.shuffle,
            "last_batch": self.last_batch,
        }


@dataclass(frozen=True)
class AspectBuckets:
    """Shapes of about one area for image batches of similar aspect ratios (NovelAI, 2022; SDXL, 2023).

    Args:
        area: Approximate pixels of a shape.
        multiple: Heights and widths are multiples of this, pixels.
        max_ratio: Largest ratio of the longer side to the shorter one, from 1.
        buckets: Largest number of shapes, chosen so that the least area is cropped; None for all shapes that
            fit some image best.
    """

    area: int
    multiple: int = 64
    max_ratio: float = 2.0
    buckets: int | None = None

    def __post_init__(self) -> None:
        for name in ("area", "multiple"):
            object.__setattr__(self, name, whole_number(f"AspectBuckets: {name}", getattr(self, name), 1))
        buckets = optional_number("AspectBuckets: buckets", self.buckets, 1)
        object.__setattr__(self, "buckets", buckets)
        if not is_finite(self.max_ratio) or self.max_ratio < 1:
            raise ConfigError(f"AspectBuckets: max_ratio must be a number from 1, found {self.max_ratio!r}")
        object.__setattr__(self, "max_ratio", float(self.max_ratio))

    def shapes(self, sizes: Int64) -> Int64:
        """The shapes for images of these heights and widths, (N, 2): (K, 2), by ascending height over width.

        Raises:
            ConfigError: No shape has these multiples and ratios.
        """
        candidates = candidate_shapes(self.area, self.multiple, self.max_ratio)
        return best_shapes(sizes, candidates, self.buckets or len(candidates))


_ANY = (64, 64)  # replaced by the size of the batch


@dataclass(frozen=True, eq=False)
class AspectPlanner(ImagePlanner):
    """A planner whose batches have images of one group each, of similar aspect ratios."""

    groups: Int64  # (N,) int64, the group of each image
    batch_sizes: tuple[int, ...]  # Samples of a batch of each group on one rank
    shapes: Int64 | None = None  # (K, 2) int64, heights and widths of groups; None pads to the largest image

    @property
    def sizes(self) -> tuple[Size, ...]:
        return () if self.shapes is None else tuple((height, width) for height, width in self.shapes.tolist())

    @property
    def fitting(self) -> Fitting:
        return Fitting(self.groups)

    def prepared(self, transforms: Transforms) -> Transforms:
        """The transforms, after a CoverCrop if no transform gives images the size of their shape."""
        if self.shapes is None or isinstance(transforms, Mapping):
            return transforms
        if any(isinstance(one, Transform) and one.with_size(_ANY) for one in transforms):
            return transforms
        return [CoverCrop(_ANY, random=self.shuffle), *transforms]

    def sampler(self, world_size: int, epoch: int) -> AspectSampler:
        batch_sizes, sampling = np.array(self.batch_sizes), self.sampling(world_size)
        return AspectSampler(self.image_sizes, self.groups, batch_sizes, self.shapes, **sampling)


def image_sizes(dataset: Dataset) -> Int64:
    """Heights and widths of all images, (N, 2), read from the index alone."""
    return np.stack([dataset.column(name).astype(np.int64) for name in ("height", "width")], axis=1)
