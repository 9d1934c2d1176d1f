"""The steps of an epoch of text on one rank, with substitutes for samples that are left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...order.changes.ledger import Ledger
from .substitutes import with_substitutes

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from stoker.bucketing import Batch, BatchPlan

    from .epoch import TextEpoch, TokenSlices

__all__ = ["Leaving", "TextSchedule"]


@dataclass(frozen=True)
class Leaving:
    """What is left out of an epoch, and how substitutes are found.

    Attributes:
        ledger: Its points are the number of the epoch, how often its ranks have changed, and the step.
        epoch: Number of the epoch.
        part: How often its number of ranks has changed.
        seed: Decides the substitutes.
        groups: (N,) numbers of the group that each sample's substitute must belong to; None without groups.
    """

    ledger: Ledger = field(default_factory=Ledger)
    epoch: int = 0
    part: int = 0
    seed: int = 0
    groups: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True)
class TextSchedule:
    """The remaining steps of one epoch, on one rank (see ``Steps`` in execution/epoch_iterator).

    Attributes:
        plan: Batches of the epoch.
        rank: This rank.
        start: Steps of the plan that are done.
        leaving: What is left out.
    """

    plan: BatchPlan
    rank: int = 0
    start: int = 0
    leaving: Leaving = field(default_factory=Leaving)

    def __len__(self) -> int:
        return len(self.plan) - self.start

    def consumed(self, steps: int) -> int:
        """Steps of the plan that are done after ``steps`` more."""
        return self.start + steps

    def batch(self, step: int) -> tuple[Batch, npt.NDArray[np.bool_]]:
        """This rank's batch at a step, and a mask of its rows, (n,) bool, False for repeated ones."""
        at = self.start + step
        return self.plan.batch(at, self.rank), self.plan.mask(at, self.rank)

    def number(self, step: int) -> int:
        """Number of a step among all of the epoch, those before a change of ranks included."""
        return sum(done for _, done in self.plan.history) + self.start + step

    def slices(self, epoch: TextEpoch, batch: Batch, step: int) -> TokenSlices:
        """The sequences of this rank's batch at a step.

        Args:
            epoch: The draws of the epoch.
            batch: The batch, of :meth:`batch`.
            step: The step.
        """
        slices, leaving = epoch.token_slices(batch.rows), self.leaving
        if not leaving.ledger:
            return slices
        excluded = leaving.ledger.at((leaving.epoch, leaving.part, self.start + step))
        key = (leaving.seed, leaving.epoch)
        return with_substitutes(epoch, batch, slices, excluded, groups=leaving.groups, key=key)
