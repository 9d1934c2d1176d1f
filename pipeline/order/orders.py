"""Orders: the sample that each draw of an epoch has, as a pure function of epoch and draw."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from stoker.arguments import whole_number
from stoker.errors import ConfigError
from stoker.random import hash_words, unit_interval

from .epoch_cache import EpochCache
from .moving_weights import MovingWeights
from .permutation import Permutation, permute
from .quotas import QuotaSchedule, apportion_draws

Int64 = npt.NDArray[np.int64]


class Order(Protocol):
    """The position that each draw of an epoch has.

    Epochs go from 0 without bound, and all have ``n`` draws. An order may depend on ``epoch * n + draw``, but
    not on steps or ranks, since a checkpoint goes on with others. Its ``repr`` identifies it in checkpoints
    and must not change once it was released.
    """

    @property
    def n(self) -> int:
        """Draws in an epoch."""

    @property
    def distinct(self) -> bool:
        """Whether an epoch draws no position twice."""

    def positions(self, epoch: int, draws: Int64) -> Int64:
        """Positions, (M,) int64, of ``draws``, (M,) int64 in ``range(n)``, of ``epoch``."""


@dataclass(frozen=True)
class Sequential:
    """The order of the source."""

    n: int
    distinct = True

    def positions(self, epoch: int, draws: Int64) -> Int64:
        """See :meth:`Order.positions`."""
        return draws


@dataclass(frozen=True)
class FullShuffle:
    """A random permutation of all samples, as uniform as :class:`Permutation` makes it."""

    n: int
    seed: int = 0
    distinct = True

    def positions(self, epoch: int, draws: Int64) -> Int64:
        """See :meth:`Order.positions`."""
        return Permutation(self.n, self.seed, epoch)(draws)


@dataclass(frozen=True)
class BlockShuffle:
    """Blocks of neighbouring samples in random order, shuffled within windows of several blocks.

    A disk or a network reads each block in one piece. In exchange a sample can only meet the samples of the
    ``window`` blocks that are drawn together with its own.

    Attributes:
        n: Number of samples; a loader fills in this and the seed.
        seed: Determines the order.
        block: Neighbouring samples in a block.
        window: Blocks that are read together and shuffled.
    """

    n: int = 0
    seed: int = 0
    block: int = 1024
    window: int = 16
    distinct = True

    def __post_init__(self) -> None:
        for name in ("block", "window"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name), 1))

    def positions(self, epoch: int, draws: Int64) -> Int64:
        """See :meth:`Order.positions`."""
        span = self.block * self.window
        shuffled = np.empty_like(draws)
        for number in np.unique(draws // span):
            in_window = np.flatnonzero(draws // span == number)
            start = int(number) * span
            window = Permutation(min(span, self.n - start), self.seed, epoch, int(number) + 1)
            shuffled[in_window] = start + window(draws[in_window] - start)
        return self._in_random_blocks(epoch, shuffled)

    def _in_random_blocks(self, epoch: int, draws: Int64) -> Int64:
        """Positions of draws where blocks are permuted and the last, short block keeps its length."""
        blocks = -(-self.n // self.block)
        order = Permutation(blocks, self.seed, epoch, 0)
        missing = blocks * self.block - self.n
        if not missing:
            return order(draws // self.block) * self.block + draws % self.block
        # Draws after the short block are ``missing`` lower than if it were a whole one.
        short = int(order.inverse(blocks - 1)[0])
        is_behind = draws >= (short + 1) * self.block - missing
        shifted = draws + np.where(is_behind, missing, 0)
        return order(shifted // self.block) * self.block + shifted % self.block


def make_order(n: int, shuffle: bool | BlockShuffle, seed: int) -> Order:
    """Return the order of n samples that a loader's ``shuffle`` asks for."""
    if isinstance(shuffle, BlockShuffle):
        return replace(shuffle, n=n, seed=seed)
    if not isinstance(shuffle, bool):
        raise ConfigError(f"shuffle must be True, False or a BlockShuffle, found {shuffle!r}")
    return FullShuffle(n, seed) if shuffle else Sequential(n)


@dataclass(frozen=True)
class Repeat:
    """Every draw of another order ``times`` in a row, so that its repeats go to different ranks."""

    order: Order  # The order that is repeated
    times: int  # Number of repeats
    n: int  # Draws in an epoch, at most ``order.n * times``

    @property
    def distinct(self) -> bool:
        """See :attr:`Order.distinct`."""
        return self.times == 1 and self.order.distinct

    def positions(self, epoch: int, draws: Int64) -> Int64:
        """See :meth:`Order.positions`."""
        return self.order.positions(epoch, draws // self.times)


@dataclass(frozen=True)
class Stream:
    """The epochs of another order one after the other, cut into epochs of another length."""

    order: Order  # The other order
    n: int = field(repr=False)  # Draws in an epoch
    distinct = False

    def positions(self, epoch: int, draws: Int64) -> Int64:
        """See :meth:`Order.positions`."""
        first, before = divmod(epoch * self.n, self.order.n)
        cycle, offset = np.divmod(before + draws, self.order.n)
        positions = np.empty_like(draws)
        for number in np.unique(cycle):
            in_cycle = np.flatnonzero(cycle == number)
            positions[in_cycle] = self.order.positions(first + int(number), offset[in_cycle])
        return positions

    def stream_draws(self, epoch: int, draws: Int64) -> Int64:
        """Numbers in the whole stream, (M,) int64 modulo 2**62, of ``draws`` of ``epoch``.

        They do not depend on the length of epochs.
        """
        return epoch * self.n % (1 << 62) + draws


Float64 = npt.NDArray[np.float64]

_CHUNK = 1 << 14  # numbers that fit into the processor's cache while a formula uses them


@dataclass(frozen=True, eq=False)
class _ColumnOrder:
    """Base of the orders that a column of numbers determines."""

    n: int  # Draws in an epoch
    seed: int  # Determines the draws
    # (N,) numbers, one for each position: its weight, from 0, or its class
    column: npt.NDArray[Any] = field(repr=False)
    digest: str = field(init=False)  # Identifies the column in checkpoints

    def __post_init__(self) -> None:
        digest = hashlib.sha256(np.ascontiguousarray(self.column).data).hexdigest()[:16]
        object.__setattr__(self, "digest", digest)


class WeightedDraws(_ColumnOrder):
    """Independent draws with probabilities in proportion to weights.

    Each draw hashes to a random number, which is looked up in the cumulative weights.
    """

    distinct = False

    @cached_property
    def _cumulative(self) -> Float64:
        return np.cumsum(self.column)

    def positions(self, epoch: int, draws: Int64) -> Int64:
        """See :meth:`Order.positions`."""
        target = unit_interval(hash_words((self.seed, epoch), draws)) * self._cumulative[-1]
        # Rounding can make a target equal to the total, which lies after the last position with a weight.
        last = np.searchsorted(self._cumulative, self._cumulative[-1], side="left")
        ascending = np.argsort(target)  # neighbouring look-ups then share the processor's cache
        positions = np.empty(len(target), np.int64)
        drawn = np.searchsorted(self._cumulative, target[ascending], side="right")
        positions[ascending] = np.minimum(drawn, last)
        return positions


class WeightedShuffle(_ColumnOrder):
    """Draws without replacement, each in proportion to the weights of the samples that remain.

    Each position has an exponential random number with its weight as the rate, and positions are drawn in
    ascending order of these (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006).
    """

    distinct = True

    @cached_property
    def _epochs(self) -> EpochCache[int, Int64]:
        return EpochCache()

    def positions(self, epoch: int, draws: Int64) -> Int64:
        """See :meth:`Order.positions`."""
        return self._epochs.get(epoch, self._whole_epoch)[draws]

    def _whole_epoch(self, epoch: int) -> Int64:
        candidates = np.flatnonzero(self.column)
        arrivals = np.empty(len(candidates))
        for first in range(0, len(candidates), _CHUNK):
            chunk = candidates[first : first + _CHUNK]
            drawn = unit_interval(hash_words((self.seed, epoch), chunk))
            arrivals[first : first + _CHUNK] = -_log(1.0 - drawn) / self.column[chunk]
        return candidates[np.argsort(arrivals, kind="stable")[: self.n]]


@dataclass(frozen=True, eq=False)
class Balanced(_ColumnOrder):
    """Equal quotas of all classes; the draws of a class cycle through its samples."""

    spread: bool = field(default=True, repr=False)  # See :class:`~stoker.pipeline.order.quotas.QuotaSchedule`
    distinct = False

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
        """See :meth:`Order.positions`."""
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
        """See :meth:`Order.positions`."""
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
    moving: MovingWeights | None = None
    distinct = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "quotas", tuple(self.quota_schedule.quotas.tolist()))

    def __repr__(self) -> str:
        # Without parts the repr stays as it was, since states of earlier releases hold it.
        parts = "" if self.moving is None else f", parts={self.moving.to_json()}"
        return f"MixedOrder(rounds={self.rounds!r}, quotas={self.quotas!r}{parts})"

    @property
    def n(self) -> int:
        """Draws in an epoch."""
        return self.quota_schedule.n

    def positions(self, epoch: int, draws: Int64) -> Int64:
        """See :meth:`Order.positions`; positions are those in the mixture."""
        sizes = self.quota_schedule.sizes
        if self.moving is None:
            group, cycle, offset = self.quota_schedule.assign(epoch, draws)
        else:
            group, cycle, offset = self.moving.assign(self.quota_schedule, epoch, draws)
        starts = np.cumsum(sizes) - sizes
        positions = np.empty_like(draws)
        for d in np.unique(group).tolist():
            of_dataset = np.flatnonzero(group == d)
            for number in np.unique(cycle[of_dataset]).tolist():
                of_cycle = of_dataset[cycle[of_dataset] == number]
                positions[of_cycle] = starts[d] + self.rounds[d].positions(number, offset[of_cycle])
        return positions


def is_shuffled(order: Order) -> bool:
    """Whether an order is shuffled; a mixture's order is if the orders of all its datasets are."""
    if isinstance(order, MixedOrder):
        return all(map(is_shuffled, order.rounds))
    if isinstance(order, (Repeat, Stream)):
        return is_shuffled(order.order)
    return not isinstance(order, Sequential)


def without_interleaving(order: Order) -> Order:
    """An order with the same draws in each epoch, but group after group, which is much faster to compute."""
    if isinstance(order, Balanced):
        return replace(order, spread=False)
    if isinstance(order, MixedOrder):
        moving = order.moving and replace(order.moving, spread=False)
        return replace(order, quota_schedule=replace(order.quota_schedule, spread=False), moving=moving)
    return order


def _log(x: Float64) -> Float64:
    """Natural logarithm of numbers in (0, 1], with a relative error of 1e-15.

    It uses only additions, multiplications and divisions, whose rounding IEEE 754 defines. NumPy's own
    logarithm differs in the last bit between processors, so that ranks on different ones would disagree about
    an order.
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
