"""Groups of aspect ratios: padded batches of images of similar shape, which need less padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from stoker.bucketing.aspect_shapes import RatioGroupSampler, ratio_groups

from ...execution.epochs.history import History
from ...execution.ranks.ranks import Ranks
from ...order.changes.substitutes import Fitting
from .image_planner import ImagePlanner, PlannedSchedule
from .padding import Padding


@dataclass(frozen=True)
class RatioGroups:
    """The groups that torchvision's ``aspect_ratio_group_factor`` describes."""

    factor: int  # See :func:`stoker.bucketing.aspect_shapes.ratio_groups`
    padding: Padding  # How images of different sizes form a batch
    label: ClassVar[str] = "Groups of aspect ratios"


@dataclass(frozen=True, eq=False)
class RatioGroupPlanner(ImagePlanner):
    """A planner of padded batches; each batch has the size of its largest image."""

    groups: RatioGroups  # The user's argument
    batch_size: int  # Samples of a batch on one rank

    @property
    def fitting(self) -> Fitting:
        """See :class:`ImagePlanner`: those of the same group."""
        return Fitting(ratio_groups(self.image_sizes, self.groups.factor))

    def sampler(self, world_size: int, epoch: int) -> RatioGroupSampler:
        """See :class:`ImagePlanner`; all epochs have one sampler."""
        sampling = self.sampling(world_size)
        return RatioGroupSampler(self.image_sizes, self.groups.factor, self.batch_size, **sampling)

    def steps(self, ranks: Ranks, *, epoch: int, start: int, history: History) -> PlannedSchedule:
        """The steps of a rank from the step ``start`` on, of an epoch or of its rest after ``history``."""
        common = (len(self.image_sizes), self.batch_size, ranks.rank, ranks.world_size, self.last_batch)
        return PlannedSchedule(*common, plan=self.plan(ranks, epoch, history), done=start)

    def to_json(self) -> dict[str, Any]:
        """All that decides the batches but the number of ranks, as a dictionary that JSON can hold."""
        return {
            **self.groups.padding.to_json(),
            "aspect_ratio_group_factor": self.groups.factor,
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "last_batch": self.last_batch,
        }
