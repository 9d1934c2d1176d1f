"""One epoch of text: the samples that it draws, its steps, and the parts in which it was run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from stoker.bucketing import Batch, BatchPlan, BatchSampler, PackingPlan

    Int64 = npt.NDArray[np.int64]

__all__ = ["TextEpoch", "TextSchedule", "TokenSlices"]


class TokenSlices(NamedTuple):
    """The P sequences of one batch: each is a slice of the tokens of a sample.

    Attributes:
        positions: (P,) int64, positions of the samples in the dataset.
        begins: (P,) int64, first token of each slice; above 0 only if a sample was split.
        lengths: (P, D) int64, tokens of each slice in each of D fields.
        groups: (rows + 1,) int64, first slice of each packed row, and P at the end; None without packing.
        draws: (P,) int64, number of each slice's draw in the epoch.
    """

    positions: Int64
    begins: Int64
    lengths: Int64
    groups: Int64 | None
    draws: Int64


@dataclass(frozen=True)
class TextSchedule:
    """The remaining steps of one epoch, on one rank (see ``Steps`` in execution/epoch_iterator).

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
        """This rank's batch at a step, and a mask of its rows, (n,) bool, False for repeated ones."""
        at = self.start + step
        return self.plan.batch(at, self.rank), self.plan.mask(at, self.rank)

    def number(self, step: int) -> int:
        """Number of a step among all of the epoch, those before a change of ranks included."""
        return sum(done for _, done in self.plan.history) + self.start + step


@dataclass(frozen=True, eq=False)
class TextEpoch:
    """The draws of one epoch, and how they form batches.

    Attributes:
        sampler: Groups draws, or packed rows of draws, into batches. Its lengths may be costs: they decide
            the groups, and ``lengths`` decides what is read.
        lengths: (n, D) integers, tokens of each draw in each of D fields.
        drawn: (n,) int32 or int64, position in the dataset of each draw; None if draw i is sample i.
        packing: Which draws share a packed row; None without packing.
    """

    sampler: BatchSampler
    lengths: npt.NDArray[Any]
    drawn: npt.NDArray[Any] | None
    packing: PackingPlan | None

    def token_slices(self, rows: Int64) -> TokenSlices:
        """The sequences of one batch.

        Args:
            rows: (n,) int64, the batch's packed rows, or its draws without packing.
        """
        packing = self.packing
        if packing is None:
            lengths = self.lengths[rows].astype(np.int64, copy=False)
            return TokenSlices(self._samples(rows), np.zeros_like(rows), lengths, None, rows)
        counts = packing.offsets[rows + 1] - packing.offsets[rows]
        groups = np.concatenate(([0], np.cumsum(counts)))
        which = np.repeat(packing.offsets[rows] - groups[:-1], counts) + np.arange(groups[-1])
        draws = packing.rows[which].astype(np.int64, copy=False)
        begins, lengths = packing.begins[which], packing.lengths[which, None]
        return TokenSlices(
            self._samples(draws), begins.astype(np.int64), lengths.astype(np.int64), groups, draws
        )

    def _samples(self, draws: npt.NDArray[Any]) -> Int64:
        return (draws if self.drawn is None else self.drawn[draws]).astype(np.int64, copy=False)
