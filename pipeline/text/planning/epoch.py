"""An epoch of text: the samples that it draws, and how they form batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stoker.bucketing import BatchSampler, PackingPlan

Int64 = npt.NDArray[np.int64]


class TokenSlices(NamedTuple):
    """The P sequences of one batch: each is a slice of the tokens of a sample."""

    positions: Int64  # (P,) int64, positions of the samples in the dataset
    begins: Int64  # (P,) int64, first token of each slice; above 0 only if a sample was split
    lengths: Int64  # (P, D) int64, tokens of each slice in each of D fields
    # (rows + 1,) int64, first slice of each packed row, and P at the end; None without packing
    groups: Int64 | None
    draws: Int64  # (P,) int64, number of each slice's draw in the epoch
    # (P,) bool, whether a document begins with each slice of streams; None for other batches
    opens: npt.NDArray[np.bool_] | None = None

    def part(self, each: slice) -> TokenSlices:
        """Some of the sequences, of rows that are not packed."""
        lengths, draws = self.lengths[each], self.draws[each]
        return TokenSlices(self.positions[each], self.begins[each], lengths, None, draws)


@dataclass(frozen=True, eq=False)
class TextEpoch:
    """The draws of one epoch, and how they form batches."""

    sampler: BatchSampler  # Groups draws, or packed rows of draws, into batches
    lengths: npt.NDArray[Any]  # (n, D) integers, tokens that are read of each draw in each of D fields
    # (n,) int32 or int64, position in the dataset of each draw; None if draw i is sample i
    drawn: npt.NDArray[Any] | None
    packing: PackingPlan | None  # The draws of each packed row; None without packing
    # (n, E) integers, the lengths by which batches are planned; None if they are ``lengths``
    planned: npt.NDArray[Any] | None = None

    def token_slices(self, rows: Int64) -> TokenSlices:
        """The sequences of a batch of ``rows``, (n,) int64: its packed rows, or its draws without packing."""
        packing = self.packing
        if packing is None:
            lengths = self.lengths[rows].astype(np.int64, copy=False)
            return TokenSlices(self.samples(rows), np.zeros_like(rows), lengths, None, rows)
        counts = packing.offsets[rows + 1] - packing.offsets[rows]
        groups = np.concatenate(([0], np.cumsum(counts)))
        which = np.repeat(packing.offsets[rows] - groups[:-1], counts) + np.arange(groups[-1])
        draws = packing.rows[which].astype(np.int64, copy=False)
        begins, lengths = packing.begins[which], packing.lengths[which].reshape(len(which), -1)
        if self.planned is not None:
            lengths = self.lengths[draws]
        begins, lengths = begins.astype(np.int64), lengths.astype(np.int64)
        return TokenSlices(self.samples(draws), begins, lengths, groups, draws)

    def samples(self, draws: npt.NDArray[Any]) -> Int64:
        """Positions in the dataset of draws, (n,) each."""
        return (draws if self.drawn is None else self.drawn[draws]).astype(np.int64, copy=False)
