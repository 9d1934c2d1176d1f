"""One epoch of text: what it draws, its steps, and the parts in which it was run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from stoker.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from stoker.bucketing import Batch, BatchPlan, BatchSampler, PackingPlan

    Int64 = npt.NDArray[np.int64]

__all__ = ["History", "TextEpoch", "TextSchedule", "TokenSlices", "checked_history"]

History = tuple[tuple[int, int], ...]
"""(world size, steps done) of each part of an epoch that went on with another number of ranks."""


class TokenSlices(NamedTuple):
    """The sequences of one batch.

    Attributes:
        positions: (P,) int64, the sample of each, in the dataset.
        begins: (P,) int64, its first token; 0 but for a sequence that was split.
        lengths: (P, D) int64, its tokens, in each of D fields.
        groups: (rows + 1,) int64, the first piece of each packed row, and P; None where none are packed.
    """

    positions: Int64
    begins: Int64
    lengths: Int64
    groups: Int64 | None


@dataclass(frozen=True)
class TextSchedule:
    """The steps of one epoch that are left, on one rank (see :class:`Steps`).

    Attributes:
        plan: Batches of the epoch.
        rank: This rank.
        start: Steps of the plan that are done.
    """

    plan: BatchPlan
    rank: int = 0
    start: int = 0

    def __len__(self) -> int:
        return len(self.plan) - self.start

    def consumed(self, steps: int) -> int:
        """Steps of the plan that are done after ``steps`` more."""
        return self.start + steps

    def batch(self, step: int) -> tuple[Batch, npt.NDArray[np.bool_]]:
        """The rows and shape of this rank's batch, and which rows are not there to fill it, (n,) bool."""
        at = self.start + step
        return self.plan.batch(at, self.rank), self.plan.mask(at, self.rank)


@dataclass(frozen=True, eq=False)
class TextEpoch:
    """What an epoch draws, and what makes batches of it.

    Attributes:
        sampler: Puts draws, or packed rows of them, into batches.
        drawn: (n,) int64, the sample of each draw; None where draw i is sample i.
        packing: Which draws share a packed row; None where none do.
    """

    sampler: BatchSampler
    drawn: Int64 | None
    packing: PackingPlan | None

    def token_slices(self, rows: Int64) -> TokenSlices:
        """The sequences of one batch: of draws, or packed rows where there is a packing, (n,) int64."""
        packing = self.packing
        if packing is None:
            lengths = self.sampler.lengths[rows].reshape(len(rows), -1)
            return TokenSlices(self._samples(rows), np.zeros_like(rows), lengths, None)
        counts = packing.offsets[rows + 1] - packing.offsets[rows]
        groups = np.concatenate(([0], np.cumsum(counts)))
        which = np.repeat(packing.offsets[rows] - groups[:-1], counts) + np.arange(groups[-1])
        samples = self._samples(packing.rows[which])
        return TokenSlices(samples, packing.begins[which], packing.lengths[which, None], groups)

    def _samples(self, draws: Int64) -> Int64:
        return draws if self.drawn is None else self.drawn[draws]


def checked_history(parts: Sequence[Any]) -> History:
    """What a state says of the parts of its epoch.

    Raises:
        CheckpointError: It is no history.
    """
    history = tuple(tuple(part) for part in parts)
    for part in history:
        if len(part) != 2 or any(type(number) is not int or number < 0 for number in part) or part[0] < 1:
            raise CheckpointError(f"a part of an epoch is (ranks, steps), found {part!r}")
    return cast("History", history)
