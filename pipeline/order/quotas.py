"""Orders with exact shares of several groups, of classes or of datasets, computed for any draws."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError
from stoker.processes import cached_property
from stoker.random import hash_words

from .orders import ColumnOrder, Order, grouped, permute

Int64 = npt.NDArray[np.int64]

_BLOCK = 64  # draws that are shuffled among each other: enough that no rank receives one group only


def apportion_draws(weights: Sequence[float], n: int) -> Int64:
    """Return whole numbers in proportion to ``weights`` that add up to ``n``, (G,) int64."""
    # Uses the largest remainders (Hamilton's method; the first of equal ones wins). So each number is its
    # exact share rounded down or up.
    if not all(0 <= weight < float("inf") for weight in weights) or not any(weights):
        raise ConfigError(f"weights must be numbers from 0, with at least one above 0, found {list(weights)}")
    exact = [Fraction(weight) for weight in weights]
    total = sum(exact)
    shares = [n * weight / total for weight in exact]
    counts = [int(share) for share in shares]
    by_remainder = sorted(range(len(shares)), key=lambda i: counts[i] - shares[i])
    for i in by_remainder[: n - sum(counts)]:
        counts[i] += 1
    return np.array(counts, np.int64)


class GroupDraws(NamedTuple):
    """Draws of an epoch as draws of their groups."""

    group: Int64  # (M,) int64, number of the group
    # (M,) int64, cycles of the group that are complete before the draw, over all epochs, modulo 2**62
    cycle: Int64
    offset: Int64  # (M,) int64, number of the draw in the group's present cycle, from 0


@dataclass(frozen=True, eq=False)
class QuotaSchedule:
    """The group that each draw of an epoch belongs to, so that each group has its quota of draws.

    An epoch is cut into blocks of about 64 draws, or of one draw for each group if there are more groups.
    Each block has its even share of every group, rounded, in random order. So the count of a group's draws up
    to any draw is near its share, too.

    The draws of a group cycle through its members, and go on where the epoch before stopped. No member is
    drawn again before all others have been.
    """

    quotas: Int64  # (G,) int64, draws of each group in an epoch
    sizes: Int64  # (G,) int64, members of each group; at least 1 if the group has a quota
    seed: int  # Determines the order of groups
    spread: bool = True  # If False, an epoch has all draws of group 0, then all of group 1, and so on

    @cached_property
    def n(self) -> int:
        return int(self.quotas.sum())

    @cached_property
    def blocks(self) -> int:
        block = max(_BLOCK, len(self.quotas))
        # blocks * n must fit into 63 bits: beyond 10**10 draws blocks become larger.
        return max(1, min(self.n // block, (1 << 62) // max(1, self.n)))

    def assign(self, epoch: int, draws: Int64) -> GroupDraws:
        """Groups of ``draws``, (M,) int64 in ``range(n)``, of ``epoch``."""
        before = [epoch * quota for quota in self.quotas.tolist()]
        return self.locate_in_cycles(before, *self.groups(epoch, draws))

    def locate_in_cycles(self, before: Sequence[int], group: Int64, earlier: Int64) -> GroupDraws:
        """Return M draws of groups, (M,) int64, each after ``earlier``, (M,) int64, draws of its group."""
        # ``before`` counts draws of each group before those. They are Python's integers: epochs have no
        # bound.
        done = [divmod(count, max(1, size)) for count, size in zip(before, self.sizes.tolist(), strict=True)]
        cycles = np.array([cycle % (1 << 62) for cycle, _ in done], np.int64)
        offsets = np.array([offset for _, offset in done], np.int64)
        cycle, offset = np.divmod(offsets[group] + earlier, self.sizes[group])
        return GroupDraws(group, cycles[group] + cycle, offset)

    def groups(self, epoch: int, draws: Int64) -> tuple[Int64, Int64]:
        """The group of each draw, and how many earlier draws of the epoch it has, (M,) int64 each."""
        if not self.spread:
            ends = np.cumsum(self.quotas)
            group = np.searchsorted(ends, draws, side="right")
            return group, draws - (ends - self.quotas)[group]
        # A rounded boundary is off by less than a block. So a draw lies in block `draw * blocks // n` or in
        # the one before or after it, and all three are computed.
        near = np.unique(draws * self.blocks // self.n)
        blocks = np.unique(np.clip(near[:, None] + np.arange(-1, 3), 0, self.blocks))
        begins = self._begins(epoch, blocks)
        starts = begins.sum(axis=1)
        which = np.searchsorted(starts, draws, side="right") - 1
        lengths = np.diff(starts)[which]
        words = hash_words((self.seed, epoch, 1), blocks[which])
        shuffled = starts[which] + permute(draws - starts[which], lengths, words)
        # Before the shuffle a block has its draws group by group; ``ends`` ascends over all blocks and
        # groups.
        ends = begins[:-1].sum(axis=1)[:, None] + np.cumsum(np.diff(begins, axis=0), axis=1)
        group = np.searchsorted(ends.ravel(), shuffled, side="right") - which * len(self.quotas)
        first = np.where(group > 0, ends[which, group - 1], starts[which])
        return group, begins[which, group] + shuffled - first

    def block_after(self, epoch: int, draw: int) -> int:
        """The first draw from ``draw`` on, in ``range(n)``, that begins a block; n if there is none."""
        near = draw * self.blocks // self.n
        starts = self._begins(epoch, np.clip(near + np.arange(-1, 4), 0, self.blocks)).sum(axis=1)
        return int(starts[starts >= draw].min())

    def _begins(self, epoch: int, blocks: Int64) -> Int64:
        """Draws of each group before each of K blocks, (K, G) int64."""
        words = hash_words((self.seed, epoch, 0), np.arange(len(self.quotas)))
        phases = (words % np.uint64(self.blocks)).astype(np.int64)
        begins: Int64 = (blocks[:, None] * self.quotas + phases) // self.blocks
        return begins


@dataclass(frozen=True, eq=False)
class Balanced(ColumnOrder):
    """Equal quotas of all classes; the draws of a class cycle through its samples."""

    spread: bool = field(default=True, repr=False)  # See :class:`~stoker.pipeline.order.orders.QuotaSchedule`
    distinct = False

    def without_interleaving(self) -> Balanced:
        return replace(self, spread=False)

    @cached_property
    def _members(self) -> Int64:
        """(N,) int64, positions class by class."""
        return np.argsort(self.column, kind="stable")

    @cached_property
    def _quota_schedule(self) -> QuotaSchedule:
        _, sizes = np.unique(self.column, return_counts=True)
        quotas = apportion_draws([1.0] * len(sizes), self.n)
        return QuotaSchedule(quotas, sizes.astype(np.int64), self.seed, self.spread)

    def positions(self, epoch: int, draws: Int64) -> Int64:
        sizes = self._quota_schedule.sizes
        group, cycle, offset = self._quota_schedule.assign(epoch, draws)
        starts = np.cumsum(sizes) - sizes
        member = starts[group] + permute(offset, sizes[group], hash_words((self.seed,), group, cycle))
        positions: Int64 = self._members[member]
        return positions


@dataclass(frozen=True, eq=False)
class BalancedObjects(Balanced):
    """Equal quotas of all classes of objects; the draws of a class cycle through the images that show it."""

    # column (P,)

    images: Int64 = field(kw_only=True, repr=False)  # (P,) int64, positions of the images of these pairs

    def __post_init__(self) -> None:
        digest = hashlib.sha256(np.stack((self.column, self.images)).data).hexdigest()[:16]
        object.__setattr__(self, "digest", digest)

    def positions(self, epoch: int, draws: Int64) -> Int64:
        return self.images[super().positions(epoch, draws)]


@dataclass(frozen=True, eq=False, repr=False)
class MixedOrder:
    """Cycles of several orders, with a quota of draws for each."""

    quota_schedule: QuotaSchedule = field(repr=False)  # Assigns the draws of an epoch to the orders
    # One order for each dataset. Cycle c of a dataset is epoch c of its order. States hold this name
    rounds: tuple[Order, ...]
    # Draws of each dataset in an epoch; with ``moving``, in a round of the last part
    quotas: tuple[int, ...] = field(init=False)
    # Parts of the training with other weights; None if weights never change
    moving: Any = None
    distinct = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "quotas", tuple(self.quota_schedule.quotas.tolist()))

    def __repr__(self) -> str:
        # Without parts the repr stays as it was, since states of earlier releases hold it.
        parts = "" if self.moving is None else f", parts={self.moving.to_json()}"
        return f"MixedOrder(rounds={self.rounds!r}, quotas={self.quotas!r}{parts})"

    @property
    def n(self) -> int:
        return self.quota_schedule.n

    def without_interleaving(self) -> MixedOrder:
        schedule, moving = replace(self.quota_schedule, spread=False), self.moving
        return replace(self, quota_schedule=schedule, moving=moving and replace(moving, spread=False))

    def positions(self, epoch: int, draws: Int64) -> Int64:
        """Positions in the mixture."""
        sizes = self.quota_schedule.sizes
        if self.moving is None:
            group, cycle, offset = self.quota_schedule.assign(epoch, draws)
        else:
            group, cycle, offset = self.moving.assign(self.quota_schedule, epoch, draws)
        starts = np.cumsum(sizes) - sizes
        positions = np.empty_like(draws)
        for d, of_dataset in grouped(group):
            for number, at in grouped(cycle[of_dataset]):
                of_cycle = of_dataset[at]
                positions[of_cycle] = starts[d] + self.rounds[d].positions(number, offset[of_cycle])
        return positions
