"""The bases of the planners, which decide the images of each batch from the sizes in the index."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.bucketing import BatchPlan
from stoker.bucketing.samplers import BatchSampler
from stoker.types import Layout, Size

from ...execution.epochs.epoch_cache import SharedEpochs
from ...execution.epochs.history import History
from ...execution.ranks.ranks import Ranks
from ...order.changes.substitutes import Fitting
from ...order.rank_draws import LastBatch, Schedule
from ..batch_transforms import Transforms

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ImagePlanner:
    """A planner of an epoch: it decides which images form each batch. Every rank makes the same plan."""

    image_sizes: Int64  # (N, 2) int64, heights and widths of the images
    seed: int  # Seed of the batches
    shuffle: bool  # Whether each epoch has other batches in another order
    last_batch: LastBatch  # The loader's argument
    _: KW_ONLY
    _plans: SharedEpochs[tuple[int, int, History], BatchPlan] = field(default_factory=SharedEpochs)

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
        """The layout of the images."""
        return layout

    def sampler(self, world_size: int, epoch: int) -> BatchSampler:
        """The sampler of an epoch for a number of ranks."""
        raise NotImplementedError

    def plan(self, ranks: Ranks, epoch: int, history: History) -> BatchPlan:
        """The batches of an epoch after those of ``history``."""
        key = (ranks.world_size, epoch, history)
        return self._plans.get(key, lambda _: self.sampler(ranks.world_size, epoch).plan(epoch, history))

    def sampling(self, world_size: int) -> dict[str, Any]:
        """The arguments that all samplers take."""
        return {
            "seed": self.seed % (1 << 64),
            "world_size": world_size,
            "membership": "fresh" if self.shuffle else "ordered",
            "shuffle": self.shuffle,
            "last_batch": self.last_batch,
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class PlannedSchedule(Schedule):
    """The steps of a rank by a plan; ``consumed`` counts steps. Draws are positions in the dataset."""

    plan: BatchPlan  # Batches of the epoch
    done: int  # Steps of the plan that are done

    def __len__(self) -> int:
        return max(0, len(self.plan) - self.done)

    @property
    def last_is_empty(self) -> bool:
        """See :class:`Schedule`: never, for all ranks have batches of one size."""
        return False

    def shown_at(self, steps: Int64, draws: Int64, mask: npt.NDArray[np.bool_]) -> Int64:
        """See :class:`Schedule`: the numbers of the steps, those on other numbers of ranks included."""
        return sum(done for _, done in self.plan.history) + self.done + steps

    def consumed(self, steps: int) -> int:
        """Steps of the plan that are done after ``steps`` more."""
        return self.done + steps

    def draws(self, step: int) -> tuple[Int64, npt.NDArray[np.bool_]]:
        """See :class:`Schedule`."""
        at = self.done + step
        return self.plan.batch(at, self.rank).rows, self.plan.mask(at, self.rank)
