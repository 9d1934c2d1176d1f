"""Orders: the sample that each draw of an epoch has, as a pure function of epoch and draw."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from stoker.arguments import whole_number
from stoker.errors import ConfigError
from stoker.processes import cached_property
from stoker.random import hash_words, sequence, unit_interval

from .schedule import EpochCache

Int64 = npt.NDArray[np.int64]
UInt64 = npt.NDArray[np.uint64]

_ROUNDS = 12
_MULTIPLIER = np.uint64(0xD6E8FEB86659FD93)  # of the "rrmxmx" family of mixers: odd, with well spread bits


class Permutation:
    """A keyed pseudo-random permutation of ``range(n)``, computed for any elements without an array of all.

    An alternating Feistel network over the smallest power of two that holds n, with cycle walking
    (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002): an image outside ``range(n)`` is
    permuted again, less than twice on average.
    """

    def __init__(self, n: int, *key: int) -> None:
        if n < 1:
            raise ConfigError(f"n must be at least 1, found {n}")
        bits = max(2, (n - 1).bit_length())
        self.n = n
        self._low = np.asarray(np.uint64(bits // 2))
        self._high = np.asarray(np.uint64(bits - bits // 2))
        self._keys = sequence(hash_words((n, *key)), np.arange(_ROUNDS))

    def __call__(self, elements: npt.ArrayLike) -> Int64:
        """Images, (M,) int64, of ``elements``, (M,) integers in ``range(n)``."""
        return self._walk(elements, 1)

    def inverse(self, images: npt.ArrayLike) -> Int64:
        """Elements, (M,) int64, that have these ``images``, (M,) integers in ``range(n)``."""
        return self._walk(images, -1)

    def _walk(self, values: npt.ArrayLike, direction: int) -> Int64:
        x = np.atleast_1d(np.asarray(values)).astype(np.uint64)
        x = _network(x, self._high, self._low, self._keys, direction)
        outside = np.flatnonzero(x >= np.uint64(self.n))
        while outside.size:
            x[outside] = _network(x[outside], self._high, self._low, self._keys, direction)
            outside = outside[x[outside] >= np.uint64(self.n)]
        return x.astype(np.int64)


def grouped(keys: Int64) -> Iterator[tuple[int, Int64]]:
    """Yield each of ``keys``, (M,), ascending, and the indices of its occurrences."""
    for key in np.unique(keys).tolist():
        yield key, np.flatnonzero(keys == key)


def permute(elements: Int64, sizes: Int64, words: UInt64) -> Int64:
    """Images of elements under one permutation for each element, like :class:`Permutation`."""
    # elements (M,) int64, sizes (M,) int64, words (M,) uint64 -> (M,) int64
    # frexp's exponent is the bit length; above 2**53 it can be one more, which only makes the domain larger.
    bits = np.maximum(2, np.frexp((sizes - 1).astype(np.float64))[1]).astype(np.uint64)
    low = bits >> np.uint64(1)
    x, high, limit = elements.astype(np.uint64), bits - low, sizes.astype(np.uint64)
    left = np.arange(len(x))
    while left.size:
        # Deriving the keys of the few elements left again costs less than keeping the keys of all.
        keys = sequence(words[left], np.arange(_ROUNDS)[:, None])
        x[left] = _network(x[left], high[left], low[left], keys, 1)
        left = left[x[left] >= limit[left]]
    return x.astype(np.int64)


def _network(x: UInt64, high: UInt64, low: UInt64, keys: UInt64, direction: int) -> UInt64:
    """Images of ``x``, (M,) numbers of ``high + low`` bits; of the inverse if ``direction`` is -1."""
    # ``high`` and ``low`` are scalars or (M,); ``keys`` are (12,) or (12, M), one for each round.
    one, shift = np.uint64(1), np.uint64(32)
    masks = (one << high) - one, (one << low) - one
    halves = [x >> low, x & masks[1]]
    for i in range(_ROUNDS)[::direction]:
        target = i & 1
        mixed = (halves[1 - target] + keys[i]) * _MULTIPLIER
        mixed ^= mixed >> shift
        mixed *= _MULTIPLIER
        mixed >>= shift
        halves[target] ^= mixed & masks[target]
    joined: UInt64 = (halves[0] << low) | halves[1]
    return joined


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
        return draws


@dataclass(frozen=True)
class FullShuffle:
    """A random permutation of all samples, as uniform as :class:`Permutation` makes it."""

    n: int
    seed: int = 0
    distinct = True

    def positions(self, epoch: int, draws: Int64) -> Int64:
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
        span = self.block * self.window
        shuffled = np.empty_like(draws)
        for number, in_window in grouped(draws // span):
            start = number * span
            window = Permutation(min(span, self.n - start), self.seed, epoch, number + 1)
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
        return self.times == 1 and self.order.distinct

    def positions(self, epoch: int, draws: Int64) -> Int64:
        return self.order.positions(epoch, draws // self.times)


@dataclass(frozen=True)
class Stream:
    """The epochs of another order one after the other, cut into epochs of another length."""

    order: Order  # The other order
    n: int = field(repr=False)  # Draws in an epoch
    distinct = False

    def positions(self, epoch: int, draws: Int64) -> Int64:
        positions = np.empty_like(draws)
        for cycle, at, offsets in self.cycles(epoch, draws):
            positions[at] = self.order.positions(cycle, offsets)
        return positions

    def cycles(self, epoch: int, draws: Int64) -> Iterator[tuple[int, Int64, Int64]]:
        """Yield each epoch of the other order, the indices of its draws, and these draws there."""
        first, before = divmod(epoch * self.n, self.order.n)
        cycle, offset = np.divmod(before + draws, self.order.n)
        for number, at in grouped(cycle):
            yield first + number, at, offset[at]

    def stream_draws(self, epoch: int, draws: Int64) -> Int64:
        """Numbers in the whole stream, (M,) int64 modulo 2**62, of ``draws`` of ``epoch``."""
        # They do not depend on the length of epochs.
        return epoch * self.n % (1 << 62) + draws


Float64 = npt.NDArray[np.float64]

_CHUNK = 1 << 14  # numbers that fit into the processor's cache while a formula uses them


@dataclass(frozen=True, eq=False)
class ColumnOrder:
    """Base of the orders that a column of numbers determines."""

    n: int  # Draws in an epoch
    seed: int  # Determines the draws
    # (N,) numbers, one for each position: its weight, from 0, or its class
    column: npt.NDArray[Any] = field(repr=False)
    digest: str = field(init=False)  # Identifies the column in checkpoints

    def __post_init__(self) -> None:
        digest = hashlib.sha256(np.ascontiguousarray(self.column).data).hexdigest()[:16]
        object.__setattr__(self, "digest", digest)


class WeightedDraws(ColumnOrder):
    """Independent draws with probabilities in proportion to weights.

    Each draw hashes to a random number, which is looked up in the cumulative weights.
    """

    distinct = False

    @cached_property
    def _cumulative(self) -> Float64:
        return np.cumsum(self.column)

    def positions(self, epoch: int, draws: Int64) -> Int64:
        target = unit_interval(hash_words((self.seed, epoch), draws)) * self._cumulative[-1]
        # Rounding can make a target equal to the total, which lies after the last position with a weight.
        last = np.searchsorted(self._cumulative, self._cumulative[-1], side="left")
        ascending = np.argsort(target)  # neighbouring look-ups then share the processor's cache
        positions = np.empty(len(target), np.int64)
        drawn = np.searchsorted(self._cumulative, target[ascending], side="right")
        positions[ascending] = np.minimum(drawn, last)
        return positions


class WeightedShuffle(ColumnOrder):
    """Draws without replacement, each in proportion to the weights of the samples that remain.

    Each position has an exponential random number with its weight as the rate, and positions are drawn in
    ascending order of these (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006).
    """

    distinct = True

    @cached_property
    def _epochs(self) -> EpochCache[int, Int64]:
        return EpochCache(kept=2)

    def positions(self, epoch: int, draws: Int64) -> Int64:
        return self._epochs.get(epoch, self._whole_epoch)[draws]

    def _whole_epoch(self, epoch: int) -> Int64:
        candidates = np.flatnonzero(self.column)
        arrivals = np.empty(len(candidates))
        for first in range(0, len(candidates), _CHUNK):
            chunk = candidates[first : first + _CHUNK]
            drawn = unit_interval(hash_words((self.seed, epoch), chunk))
            arrivals[first : first + _CHUNK] = -_log(1.0 - drawn) / self.column[chunk]
        return candidates[np.argsort(arrivals, kind="stable")[: self.n]]


def _log(x: Float64) -> Float64:
    """Natural logarithm of numbers in (0, 1], with a relative error of 1e-15."""
    # It uses only additions, multiplications and divisions, whose rounding IEEE 754 defines. NumPy's own
    # logarithm differs in the last bit between processors, so that ranks on different ones would disagree
    # about an order.
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


def is_shuffled(order: Any) -> bool:
    """Whether an order is shuffled; a mixture's order is if the orders of all its datasets are."""
    parts = getattr(order, "rounds", None) or ([order.order] if hasattr(order, "order") else [])
    return all(map(is_shuffled, parts)) if parts else not isinstance(order, Sequential)


def without_interleaving(order: Order) -> Order:
    """An order with the same draws in each epoch, but group after group, which is much faster to compute."""
    grouped: Order = getattr(order, "without_interleaving", lambda: order)()
    return grouped
