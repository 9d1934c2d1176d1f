"""Buckets of aspect ratios: each batch of an epoch has one of a few shapes, as diffusion models train."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.arguments import optional_number, whole_number
from stoker.augment.description import is_finite
from stoker.augment.transforms.base import Transform
from stoker.augment.transforms.crops import CoverCrop
from stoker.bucketing.aspect_shapes import ShapeBucketSampler, best_shapes, candidate_shapes, nearest_shapes
from stoker.errors import ConfigError
from stoker.formats.dataset.dataset import Dataset
from stoker.types import Size

from ...execution.epochs.history import History
from ...execution.ranks.ranks import Ranks
from ...order.changes.substitutes import Fitting
from ..batch_transforms import Transforms
from .image_planner import ImagePlanner, PlannedSchedule

Int64 = npt.NDArray[np.int64]

_ANY = (64, 64)  # a size, which that of the batch replaces


@dataclass(frozen=True)
class AspectBuckets:
    """Shapes of about one area for batches of images of similar aspect ratios (NovelAI, 2022; SDXL, 2023).

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


@dataclass(frozen=True, eq=False)
class BucketPlanner(ImagePlanner):
    """A planner whose batches have one shape each."""

    buckets: AspectBuckets  # The user's argument
    shapes: Int64  # (K, 2) int64, heights and widths of the buckets
    batch_sizes: tuple[int, ...]  # Samples of a batch of each bucket on one rank

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The shapes as pairs."""
        return tuple((height, width) for height, width in self.shapes.tolist())

    @property
    def fitting(self) -> Fitting:
        """See :class:`ImagePlanner`: those of the same nearest shape."""
        return Fitting(nearest_shapes(self.image_sizes, self.shapes))

    def prepared(self, transforms: Transforms) -> Transforms:
        """The user's transforms, after a crop if they have none."""
        return cover_by_default(transforms, random=self.shuffle)

    def sampler(self, world_size: int, epoch: int) -> ShapeBucketSampler:
        """See :class:`ImagePlanner`; all epochs have one sampler."""
        batch_sizes = np.array(self.batch_sizes)
        return ShapeBucketSampler(self.image_sizes, self.shapes, batch_sizes, **self.sampling(world_size))

    def steps(self, ranks: Ranks, *, epoch: int, start: int, history: History) -> BucketSchedule:
        """The steps of a rank from the step ``start`` on, of an epoch or of its rest after ``history``."""
        most = max(self.batch_sizes)
        common = (len(self.image_sizes), most, ranks.rank, ranks.world_size, self.last_batch)
        return BucketSchedule(*common, plan=self.plan(ranks, epoch, history), done=start)

    def to_json(self) -> dict[str, Any]:
        """All that decides the batches but the number of ranks, as a dictionary that JSON can hold."""
        return {
            "buckets": asdict(self.buckets),
            "shapes": self.shapes.tolist(),
            "batch_sizes": list(self.batch_sizes),
            "shuffle": self.shuffle,
            "last_batch": self.last_batch,
        }


class BucketSchedule(PlannedSchedule):
    """The steps of a rank by a plan of batches of one shape each."""

    def size(self, step: int) -> Size | None:
        """Height and width of the images of a step, pixels."""
        height, width = self.plan.lengths[self.done + step].tolist()
        return height, width


def image_sizes(dataset: Dataset) -> Int64:
    """Heights and widths of all images, (N, 2), read from the index alone."""
    return np.stack([dataset.column(name).astype(np.int64) for name in ("height", "width")], axis=1)


def cover_by_default(transforms: Transforms, *, random: bool) -> Transforms:
    """The same transforms, after a CoverCrop if no transform gives images a size."""
    if isinstance(transforms, Mapping) or any(
        isinstance(one, Transform) and one.with_size(_ANY) for one in transforms
    ):
        return transforms
    return [CoverCrop(_ANY, random=random), *transforms]
