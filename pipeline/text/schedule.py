"""The steps of an epoch of text on one rank, with replacements for samples that are left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.bucketing import Batch, BatchPlan
from stoker.errors import ConfigError
from stoker.random import hash_words

from ..order.exclusions import Exclusions
from .planner import TextEpoch, TokenSlices

Int64 = npt.NDArray[np.int64]

_REPLACEMENT = 0x53554254  # the word of these draws among the words of orders
_ATTEMPTS = 64


def with_replacements(
    epoch: TextEpoch,
    batch: Batch,
    slices: TokenSlices,
    excluded: Int64,
    *,
    groups: Int64 | None,
    key: tuple[int, int],
) -> TokenSlices:
    """Return the sequences of a batch with replacements for those of excluded samples.

    A replacement is a random whole sample of the epoch that fits: into the tokens of the sequence in a packed
    row, and otherwise into the padded length. If no sample fits, a longer one is cut. If batches are planned
    by other lengths than are read, no sample is cut.
    """
    # excluded (M,), positions; groups (N,)
    bad = np.flatnonzero(np.isin(slices.positions, excluded))
    if not bad.size:
        return slices
    positions, begins, lengths = slices.positions.copy(), slices.begins.copy(), slices.lengths.copy()
    for i in bad.tolist():
        row, index, table = i, 0, epoch.lengths if epoch.planned is None else epoch.planned
        limit = np.array(batch.shape[1:], np.int64)
        if slices.groups is not None:
            row = int(np.searchsorted(slices.groups, i, side="right")) - 1
            index, limit, table = i - int(slices.groups[row]), lengths[i].copy(), epoch.lengths
        position = int(positions[i])

        def may_replace(draws: Int64, position: int = position) -> npt.NDArray[np.bool_]:
            others = epoch.samples(draws)
            good = np.asarray(~np.isin(others, excluded))
            return good if groups is None else good & (groups[others] == groups[position])

        word = (*key, _REPLACEMENT, int(batch.rows[row]), index)
        draw = _random_fit(word, table, limit, may_replace)
        if draw is None or (table is not epoch.lengths and (table[draw] > limit).any()):
            problem = "could replace" if draw is None else "is short enough to replace"
            raise ConfigError(f"no sample {problem} sample {position}", hint="Exclude fewer samples.")
        positions[i], begins[i] = epoch.samples(np.array([draw]))[0], 0
        lengths[i] = np.minimum(epoch.lengths[draw], limit) if table is epoch.lengths else epoch.lengths[draw]
    return slices._replace(positions=positions, begins=begins, lengths=lengths)


def _random_fit(
    key: tuple[int, ...],
    table: npt.NDArray[Any],
    limit: Int64,
    allowed: Callable[[Int64], npt.NDArray[np.bool_]],
) -> int | None:
    """Return a random draw that is allowed, of those that fit if there are any; None if none is allowed."""
    # table (n, D), limit (D,)
    n = len(table)
    for attempt in range(_ATTEMPTS):
        draw = np.array([int(hash_words((*key, attempt))[0] % np.uint64(n))])
        if allowed(draw)[0] and (table[draw] <= limit).all():
            return int(draw[0])
    draws = np.flatnonzero(allowed(np.arange(n)))
    if not draws.size:
        return None
    fitting = draws[(table[draws] <= limit).all(axis=1)]
    chosen = fitting if fitting.size else draws
    return int(chosen[int(hash_words((*key, _ATTEMPTS))[0] % np.uint64(chosen.size))])


@dataclass(frozen=True)
class Leaving:
    """The samples that are left out of an epoch, and the rules for their replacements."""

    # Its points are the number of the epoch, how often its ranks have changed, and the step
    ledger: Exclusions = field(default_factory=Exclusions)
    epoch: int = 0  # Number of the epoch
    part: int = 0  # How often its number of ranks has changed
    seed: int = 0  # Decides the replacements
    # (N,) group of each sample, in which its replacement must be, too; None without groups
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
        return with_replacements(epoch, batch, slices, excluded, groups=leaving.groups, key=key)
