"""Groups of aspect ratios: padded batches whose images are alike in shape, so that they need less padding."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from stoker.bucketing.samplers.by_ratio import RatioGroupSampler

from ...execution.epochs.epoch_cache import SharedEpochs
from .aspect_buckets import BucketSchedule

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from stoker.bucketing import BatchPlan
    from stoker.types import Layout, Size

    from ...execution.epochs.history import History
    from ...execution.ranks.ranks import Ranks
    from ...order.rank_draws import LastBatch
    from ..columns.image_column import Transforms
    from .padding import Padding

    Int64 = npt.NDArray[np.int64]

__all__ = ["RatioGroupPlanner", "RatioGroupSchedule", "RatioGroups"]


@dataclass(frozen=True)
class RatioGroups:
    """The groups that torchvision's ``aspect_ratio_group_factor`` describes.

    Attributes:
        factor: See :func:`stoker.bucketing.samplers.by_ratio.ratio_groups`.
        padding: How images of different sizes form a batch.
    """

    factor: int
    padding: Padding
    label: ClassVar[str] = "Groups of aspect ratios"


@dataclass(frozen=True, eq=False)
class RatioGroupPlanner:
    """Plans which images form the padded batches of an epoch; every rank makes the same plan.

    Attributes:
        groups: The user's argument.
        image_sizes: (N, 2) int64, heights and widths of the images.
        batch_size: Samples of a batch on one rank.
        seed: Seed of the batches.
        shuffle: Whether each epoch has other batches in another order.
        last_batch: The loader's argument.
    """

    groups: RatioGroups
    image_sizes: Int64
    batch_size: int
    seed: int
    shuffle: bool
    last_batch: LastBatch
    sizes: ClassVar[tuple[Size, ...]] = ()  # each batch has that of its largest image
    _plans: SharedEpochs[tuple[int, int, History], BatchPlan] = field(default_factory=SharedEpochs)

    def prepared(self, transforms: Transforms) -> Transforms:
        """The user's transforms."""
        return transforms

    def layout(self, layout: Layout) -> Layout:
        """The user's layout."""
        return layout

    def sampler(self, world_size: int) -> RatioGroupSampler:
        """The sampler for a number of ranks."""
        return RatioGroupSampler(
            self.image_sizes,
            self.groups.factor,
            self.batch_size,
            seed=self.seed % (1 << 64),
            world_size=world_size,
            membership="fresh" if self.shuffle else "ordered",
            shuffle=self.shuffle,
            last_batch=self.last_batch,
        )

    def steps(self, ranks: Ranks, *, epoch: int, start: int, history: History) -> RatioGroupSchedule:
        """The steps of a rank from the step ``start`` on, of an epoch or of its rest after ``history``."""
        world_size = ranks.world_size
        plan = self._plans.get(
            (world_size, epoch, history), lambda _: self.sampler(world_size).plan(epoch, history)
        )
        common = (len(self.image_sizes), self.batch_size, ranks.rank, world_size, self.last_batch)
        return RatioGroupSchedule(*common, plan=plan, done=start)

    def to_json(self) -> dict[str, Any]:
        """All that decides the batches but the number of ranks, as a dictionary that JSON can hold."""
        return {
            **self.groups.padding.to_json(),
            "aspect_ratio_group_factor": self.groups.factor,
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "last_batch": self.last_batch,
        }


class RatioGroupSchedule(BucketSchedule):
    """The steps of a rank by a plan of padded batches, whose images have the sizes that transforms leave."""

    def size(self, step: int) -> None:
        """See :class:`Schedule`."""
