"""The batches of one rank as lists of rows, in the form that PyTorch's ``DataLoader`` takes them."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING

from .plan import check_rank

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .plan import BatchPlan


class RankBatches:
    """The batches of one rank, for ``DataLoader(dataset, batch_sampler=...)`` of PyTorch.

    Each iteration yields the batches of one epoch, which :meth:`set_epoch` chooses, as that of PyTorch's
    ``DistributedSampler`` does. The plan of an epoch is made when it is needed, and kept until another is.

    Args:
        make_plan: Returns the plan of an epoch.
        world_size: Number of ranks.
        rank: The rank.

    Raises:
        ConfigError: There is no such rank.
    """

    def __init__(self, make_plan: Callable[[int], BatchPlan], world_size: int, rank: int) -> None:
        check_rank(rank, world_size)
        self._make_plan = make_plan
        self._rank = rank
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
        self._epoch = index(epoch)

    def __len__(self) -> int:
        """Number of batches of the epoch, which is the same on every rank."""
        return len(self.plan)

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.plan.batches(self._rank))
