"""Groups of aspect ratios: padded batches whose images are alike in shape, so that they need less padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from stoker.bucketing.samplers.by_aspect import RatioGroupSampler, ratio_groups

from ...order.changes.substitutes import Fitting
from .aspect_buckets import BucketSchedule
from .image_planner import ImagePlanner

if TYPE_CHECKING:
    from ...execution.epochs.history import History
    from ...execution.ranks.ranks import Ranks
    from .padding import Padding

__all__ = ["RatioGroupPlanner", "RatioGroupSchedule", "RatioGroups"]


@dataclass(frozen=True)
class RatioGroups:
    """The groups that torchvision's ``aspect_ratio_group_factor`` describes.

    Attributes:
        factor: See :func:`stoker.bucketing.samplers.by_aspect.ratio_groups`.
        padding: How images of different sizes form a batch.
    """

    factor: int
    padding: Padding
    label: ClassVar[str] = "Groups of aspect ratios"


@dataclass(frozen=True, eq=False)
class RatioGroupPlanner(ImagePlanner):
    """A planner of padded batches; each batch has the size of its largest image.

    Attributes:
        groups: The user's argument.
        batch_size: Samples of a batch on one rank.
    """

    groups: RatioGroups
    batch_size: int

    @property
    def fitting(self) -> Fitting:
        """See :class:`ImagePlanner`: those of the same group."""
        return Fitting(ratio_groups(self.image_sizes, self.groups.factor))

    def sampler(self, world_size: int, epoch: int) -> RatioGroupSampler:
        """See :class:`ImagePlanner`; all epochs have one sampler."""
        sampling = self.sampling(world_size)
        return RatioGroupSampler(self.image_sizes, self.groups.factor, self.batch_size, **sampling)

    def steps(self, ranks: Ranks, *, epoch: int, start: int, history: History) -> RatioGroupSchedule:
        """The steps of a rank from the step ``start`` on, of an epoch or of its rest after ``history``."""
        common = (len(self.image_sizes), self.batch_size, ranks.rank, ranks.world_size, self.last_batch)
        return RatioGroupSchedule(*common, plan=self.plan(ranks, epoch, history), done=start)

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
