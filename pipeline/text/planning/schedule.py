"""The steps of an epoch of text on one rank, with substitutes for samples that are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from stoker.bucketing import Batch, BatchPlan

from ...order.changes.ledger import Ledger
from .epoch import TextEpoch, TokenSlices
from .substitutes import with_substitutes


@dataclass(frozen=True)
class Leaving:
    """The samples that are left out of an epoch, and the rules for their substitutes."""

    # Its points are the number of the epoch, how often its ranks have changed, and the step
    ledger: Ledger = field(default_factory=Ledger)
    epoch: int = 0  # Number of the epoch
    part: int = 0  # How often its number of ranks has changed
    seed: int = 0  # Decides the substitutes
    # (N,) group of each sample, in which its substitute must be, too; None without groups
    groups: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True)
class TextSchedule:
    """The remaining steps of one epoch, on one rank; the first ``start`` steps of the plan are done."""

    plan: BatchPlan
    rank: int = 0
    start: int = 0
    leaving: Leaving = field(default_factory=Leaving)

    def __len__(self) -> int:
        return len(self.plan) - self.start

    def consumed(self, steps: int) -> int:
        """Steps of the plan that are done after ``steps`` more."""
        return self.start + steps

    @cached_property
    def _ends(self) -> npt.NDArray[np.int64]:
        """(steps,) int64, tokens of this rank's batches up to the end of each step, padding included."""
        plan = self.plan
        tokens: npt.NDArray[np.int64] = plan.sizes // plan.world_size * plan.lengths.sum(axis=1)
        return tokens[self.start :].cumsum()

    def together(self, step: int, tokens: int) -> range:
        """The steps from ``step`` on, at least one, whose batches have at most ``tokens`` with padding."""
        if self.leaving.ledger:
            return range(step, step + 1)
        before = int(self._ends[step - 1]) if step else 0
        end = int(self._ends.searchsorted(before + tokens, side="right"))
        return range(step, max(end, step + 1))

    def batch(self, step: int) -> Batch:
        """This rank's batch at a step."""
        return self.plan.batch(self.start + step, self.rank)

    def mask(self, step: int) -> npt.NDArray[np.bool_]:
        """Mask of the rows of this rank's batch at a step, (n,) bool, False for repeated ones."""
        return self.plan.mask(self.start + step, self.rank)

    def number(self, step: int) -> int:
        """Number of a step in the epoch, including those before a change of ranks."""
        return sum(done for _, done in self.plan.history) + self.start + step

    def slices(self, epoch: TextEpoch, batches: Sequence[Batch], step: int) -> TokenSlices:
        """The sequences of this rank's ``batches`` at the steps from ``step`` on, batch after batch."""
        batch, leaving = batches[0], self.leaving
        rows = batch.rows if len(batches) == 1 else np.concatenate([part.rows for part in batches])
        slices = epoch.token_slices(rows)
        if not leaving.ledger:
            return slices
        excluded = leaving.ledger.at((leaving.epoch, leaving.part, self.start + step))
        key = (leaving.seed, leaving.epoch)
        return with_substitutes(epoch, batch, slices, excluded, groups=leaving.groups, key=key)
