"""Orders whose draws are not each sample once: by weight, and in shares of classes or datasets."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker.random import hash_words, unit_interval

from ..execution.epoch_cache import EpochCache
from .permutation import permute
from .quotas import QuotaSchedule, apportion

if TYPE_CHECKING:
    import numpy.typing as npt

    from .epoch_order import Order

    Int64 = npt.NDArray[np.int64]
    Float64 = npt.NDArray[np.float64]

__all__ = ["Balanced", "MixedOrder", "WeightedDraws", "WeightedShuffle", "without_order"]

_CHUNK = 1 << 14  # numbers that stay in the cache while a formula works on them


@dataclass(frozen=True, eq=False)
class _Draws:
    """What these orders are made of.

    Attributes:
        n: Draws in an epoch.
        seed: Chooses them.
        column: (N,) numbers, one a row: its weight, from 0, or its class.
        digest: Names the column in checkpoints.
    """

    n: int
    seed: int
    column: npt.NDArray[Any] = field(repr=False)
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        digest = hashlib.sha256(np.ascontiguousarray(self.column).data).hexdigest()[:16]
        object.__setattr__(self, "digest", digest)


class WeightedDraws(_Draws):
    """Independent draws with probabilities in proportion to weights.

    A draw is a number that its position gives, looked up in the sums of the weights before each row.
    """

    distinct = False

    @cached_property
    def _ends(self) -> Float64:
        ends: Float64 = np.cumsum(self.column)
        return ends

    def rows(self, epoch: int, positions: Int64) -> Int64:
        """Rows at ``positions`` of ``epoch``, (N,) int64."""
        target = unit_interval(hash_words((self.seed, epoch), positions)) * self._ends[-1]
        # Rounding may make a target of all the weight there is, which is behind the last row that has any.
        last = np.searchsorted(self._ends, self._ends[-1], side="left")
        ascending = np.argsort(target)  # so that neighbours are looked up where the cache has the sums
        found = np.empty(len(target), np.int64)
        found[ascending] = np.minimum(np.searchsorted(self._ends, target[ascending], side="right"), last)
        return found


class WeightedShuffle(_Draws):
    """Draws without replacement, each in proportion to the weights of what is left.

    A row's turn is an exponential number of rate ``weight``, and rows come by their turns (Efraimidis and
    Spirakis 2006).
    """

    distinct = True

    @cached_property
    def _orders(self) -> EpochCache[int, Int64]:
        return EpochCache()

    def rows(self, epoch: int, positions: Int64) -> Int64:
        """Rows at ``positions`` of ``epoch``, (N,) int64."""
        return self._orders.get(epoch, self._order)[positions]

    def _order(self, epoch: int) -> Int64:
        candidates = np.flatnonzero(self.column)
        turns = np.empty(len(candidates))
        for first in range(0, len(candidates), _CHUNK):
            rows = candidates[first : first + _CHUNK]
            drawn = unit_interval(hash_words((self.seed, epoch), rows))
            turns[first : first + _CHUNK] = -_log(1.0 - drawn) / self.column[rows]
        return candidates[np.argsort(turns, kind="stable")[: self.n]]


@dataclass(frozen=True, eq=False)
class Balanced(_Draws):
    """Every class in equal shares, of each class all rows in turn.

    Attributes:
        spread: See :class:`~stoker.pipeline.order.quotas.QuotaSchedule`.
    """

    spread: bool = field(default=True, repr=False)
    distinct = False

    @cached_property
    def _members(self) -> Int64:
        """Rows, class by class."""
        return np.argsort(self.column, kind="stable")

    @cached_property
    def _shares(self) -> QuotaSchedule:
        _, sizes = np.unique(self.column, return_counts=True)
        return QuotaSchedule(
            apportion([1.0] * len(sizes), self.n), sizes.astype(np.int64), self.seed, self.spread
        )

    def rows(self, epoch: int, positions: Int64) -> Int64:
        """Rows at ``positions`` of ``epoch``, (N,) int64."""
        sizes = self._shares.sizes
        group, lap, place = self._shares.turns(epoch, positions)
        starts = np.cumsum(sizes) - sizes
        member = starts[group] + permute(place, sizes[group], hash_words((self.seed,), group, lap))
        rows: Int64 = self._members[member]
        return rows


@dataclass(frozen=True, eq=False)
class MixedOrder:
    """Rounds of several orders, each as often as its share says.

    Attributes:
        shares: Of each order in an epoch.
        rounds: The order of each dataset's rows in every round.
    """

    shares: QuotaSchedule = field(repr=False)
    rounds: tuple[Order, ...]
    quotas: tuple[int, ...] = field(init=False)
    distinct = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "quotas", tuple(self.shares.quotas.tolist()))

    @property
    def n(self) -> int:
        """Draws in an epoch."""
        return self.shares.n

    def rows(self, epoch: int, positions: Int64) -> Int64:
        """Positions in the mixture at ``positions`` of ``epoch``, (N,) int64."""
        group, lap, place = self.shares.turns(epoch, positions)
        starts = np.cumsum(self.shares.sizes) - self.shares.sizes
        rows = np.empty_like(positions)
        for d in np.unique(group).tolist():
            of_dataset = np.flatnonzero(group == d)
            laps = lap[of_dataset]
            for number in np.unique(laps).tolist():
                here = of_dataset[laps == number]
                rows[here] = starts[d] + self.rounds[d].rows(number, place[here])
        return rows


def without_order(order: Order) -> Order:
    """What draws the same in each epoch, in the order that is worked out fastest."""
    if isinstance(order, Balanced):
        return replace(order, spread=False)
    if isinstance(order, MixedOrder):
        return replace(order, shares=replace(order.shares, spread=False))
    return order


def _log(x: Float64) -> Float64:
    """Natural logarithm of numbers in (0, 1], to 1e-15 of it.

    Of additions, multiplications and divisions alone, which IEEE 754 rounds in one way: NumPy's own differs
    in the last bit between processors, and ranks on two kinds of them would disagree about an order.
    """
    mantissa, exponent = np.frexp(x)
    low = mantissa < np.sqrt(0.5)
    mantissa, exponent = np.where(low, 2 * mantissa, mantissa), exponent - low
    ratio = (mantissa - 1) / (mantissa + 1)  # log m = 2 artanh((m - 1) / (m + 1)), |ratio| < 0.172
    square = ratio * ratio
    series = np.zeros_like(x)
    for power in range(21, 0, -2):
        series = series * square + 1 / power
    made: Float64 = 2 * ratio * series + exponent * 0.6931471805599453
    return made
