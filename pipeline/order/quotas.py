"""Exact shares of several groups in an epoch, well mixed, evaluated at any position without an array."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stoker.errors import ConfigError
from stoker.random import hash_words

from .permutation import permute

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Int64 = npt.NDArray[np.int64]

__all__ = ["QuotaSchedule", "Turns", "apportion"]

_BLOCK = 64  # positions that are shuffled among themselves: enough that no rank gets one group only


def apportion(weights: Sequence[float], n: int) -> Int64:
    """Whole numbers in proportion to ``weights`` that add up to ``n``, (G,) int64.

    By largest remainder (Hamilton's method), the first of equals first: each is its exact share rounded
    down or up.

    Raises:
        ConfigError: A weight is no number from 0, or all are 0.
    """
    if not all(0 <= weight < float("inf") for weight in weights) or not any(weights):
        raise ConfigError(f"weights must be numbers from 0, one of them above, found {list(weights)}")
    exact = [Fraction(weight) for weight in weights]
    total = sum(exact)
    ideal = [n * weight / total for weight in exact]
    counts = [int(share) for share in ideal]
    by_remainder = sorted(range(len(ideal)), key=lambda i: counts[i] - ideal[i])
    for i in by_remainder[: n - sum(counts)]:
        counts[i] += 1
    return np.array(counts, np.int64)


class Turns(NamedTuple):
    """Draws from groups.

    Attributes:
        group: (N,) int64, which group.
        lap: (N,) int64, how often it was gone through before, over all epochs, modulo 2**62.
        place: (N,) int64, the place in its present round.
    """

    group: Int64
    lap: Int64
    place: Int64


@dataclass(frozen=True, eq=False)
class QuotaSchedule:
    """Which group each position of an epoch draws from, as often as its quota says.

    An epoch is cut into blocks of about 64 positions, or one for each group where there are more. A block
    holds of each group the next whole number of its quota's even spread, in random order. So a group's
    draws up to any position are near its share of the positions, too.

    Draws of a group go round its samples, on from where the epoch before stopped: no sample is drawn once
    more before all others are.

    Attributes:
        quotas: (G,) int64, draws of each group in an epoch.
        sizes: (G,) int64, its samples; from 1 where it has a quota.
        seed: Decides the order of groups.
        spread: False draws group after group instead: the same in each epoch, worked out much faster, for
            who puts it into an order of its own.
    """

    quotas: Int64
    sizes: Int64
    seed: int
    spread: bool = True

    @cached_property
    def n(self) -> int:
        """Draws in an epoch."""
        return int(self.quotas.sum())

    @cached_property
    def blocks(self) -> int:
        """Blocks in an epoch."""
        block = max(_BLOCK, len(self.quotas))
        # Their number times n must stay in 63 bits: beyond 10**10 draws blocks grow.
        return max(1, min(self.n // block, (1 << 62) // max(1, self.n)))

    def turns(self, epoch: int, positions: Int64) -> Turns:
        """What is drawn at ``positions``, (N,) int64 in ``range(n)``, of ``epoch``."""
        group, count = self._place(epoch, positions)
        # Any epoch is allowed: what it drew before is counted in Python's integers.
        before = [
            divmod(epoch * quota, max(1, size))
            for quota, size in zip(self.quotas.tolist(), self.sizes.tolist(), strict=True)
        ]
        laps = np.array([lap % (1 << 62) for lap, _ in before], np.int64)
        places = np.array([place for _, place in before], np.int64)
        lap, place = np.divmod(places[group] + count, self.sizes[group])
        return Turns(group, laps[group] + lap, place)

    def _place(self, epoch: int, positions: Int64) -> tuple[Int64, Int64]:
        """The group at each position, and how often the epoch drew from it before, (N,) int64 each."""
        if not self.spread:
            ends = np.cumsum(self.quotas)
            group = np.searchsorted(ends, positions, side="right")
            return group, positions - (ends - self.quotas)[group]
        words = hash_words((self.seed, epoch, 0), np.arange(len(self.quotas)))
        phases = (words % np.uint64(self.blocks)).astype(np.int64)
        # Rounding moves draws by less than one a group, of which there are no more than a block has places:
        # a position is in the block where it would be without, or in one beside it, of which both ends count.
        near = np.unique(positions * self.blocks // self.n)
        blocks = np.unique(np.clip(near[:, None] + np.arange(-1, 3), 0, self.blocks))
        begins = (blocks[:, None] * self.quotas + phases) // self.blocks  # (K, G), draws before each block
        starts = begins.sum(axis=1)
        which = np.searchsorted(starts, positions, side="right") - 1
        lengths = np.diff(starts)[which]
        words = hash_words((self.seed, epoch, 1), blocks[which])
        drawn = starts[which] + permute(positions - starts[which], lengths, words)
        # A block's draws in the order of groups: where each group's end, ascending over all blocks.
        ends = begins[:-1].sum(axis=1)[:, None] + np.cumsum(np.diff(begins, axis=0), axis=1)
        group = np.searchsorted(ends.ravel(), drawn, side="right") - which * len(self.quotas)
        first = np.where(group > 0, ends[which, group - 1], starts[which])
        return group, begins[which, group] + drawn - first
