"""In which order samples are drawn, and which rank gets which: pure functions, O(1) memory.

Everything is a function of a position in the epoch, so an epoch starts at once at any position, a
checkpoint is a number, and a reader knows every byte that comes next.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

__all__ = ["BlockShuffle", "FullShuffle", "LastBatch", "Order", "Permutation", "Schedule", "Sequential"]

LastBatch = Literal["drop", "pad", "partial"]
Int64 = npt.NDArray[np.int64]

_ROUNDS = 12
_MULTIPLIER = 0xD6E8FEB86659FD93  # of the "rrmxmx" family of mixers: odd, with well spread bits
_MASK64 = (1 << 64) - 1


def _mix(x: int) -> int:
    """A 64-bit integer from another, every bit depending on every bit (Stafford's Mix13)."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK64
    return x ^ (x >> 31)


def _keys(*words: int) -> list[int]:
    """Round keys from integers of any size or sign."""
    state = 0
    for word in words:
        digits = word.to_bytes(word.bit_length() // 64 * 8 + 8, "little", signed=True)
        for (digit,) in struct.iter_unpack("<Q", digits):
            state = _mix((state + digit + 0x9E3779B97F4A7C15) & _MASK64)
    return [_mix((state + i * 0x9E3779B97F4A7C15) & _MASK64) for i in range(1, _ROUNDS + 1)]


class Permutation:
    """A keyed pseudo-random permutation of ``range(n)``, evaluated at any positions without an array.

    An alternating Feistel network over the smallest power of two that holds n, with cycle walking
    (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002): what falls outside ``range(n)`` is
    permuted again, fewer than twice on average.

    Args:
        n: Size of the domain, at least 1.
        key: Integers that choose the permutation.
    """

    def __init__(self, n: int, *key: int) -> None:
        if n < 1:
            raise ConfigError(f"n must be at least 1, found {n}")
        bits = max(2, (n - 1).bit_length())
        self.n = n
        self._low = np.uint64(bits // 2)
        self._masks = (np.uint64((1 << (bits - bits // 2)) - 1), np.uint64((1 << (bits // 2)) - 1))
        self._keys = [np.uint64(k) for k in _keys(n, *key)]

    def __call__(self, positions: npt.ArrayLike) -> Int64:
        """Images of ``positions``, (N,) integers in ``range(n)``, as (N,) int64."""
        return self._walk(positions, range(_ROUNDS))

    def inverse(self, images: npt.ArrayLike) -> Int64:
        """Positions of which ``images`` are the images, (N,) int64."""
        return self._walk(images, range(_ROUNDS - 1, -1, -1))

    def _walk(self, values: npt.ArrayLike, rounds: range) -> Int64:
        x = self._network(np.atleast_1d(np.asarray(values)).astype(np.uint64), rounds)
        outside = np.flatnonzero(x >= np.uint64(self.n))
        while outside.size:
            x[outside] = self._network(x[outside], rounds)
            outside = outside[x[outside] >= np.uint64(self.n)]
        return x.astype(np.int64)

    def _network(self, x: npt.NDArray[np.uint64], rounds: range) -> npt.NDArray[np.uint64]:
        halves = [x >> self._low, x & self._masks[1]]
        shift, multiplier = np.uint64(32), np.uint64(_MULTIPLIER)
        for i in rounds:
            target = i & 1
            mixed = (halves[1 - target] + self._keys[i]) * multiplier
            mixed ^= mixed >> shift
            mixed *= multiplier
            mixed >>= shift
            halves[target] ^= mixed & self._masks[target]
        joined: npt.NDArray[np.uint64] = (halves[0] << self._low) | halves[1]
        return joined


class Order(Protocol):
    """A permutation of the rows 0..n-1 for each epoch."""

    @property
    def n(self) -> int:
        """Number of samples."""

    def rows(self, epoch: int, positions: Int64) -> Int64:
        """Rows at ``positions``, (N,) int64 in ``range(n)``, of ``epoch``."""


@dataclass(frozen=True)
class Sequential:
    """The order of the index."""

    n: int

    def rows(self, epoch: int, positions: Int64) -> Int64:
        """Rows at ``positions``: themselves."""
        return positions


@dataclass(frozen=True)
class FullShuffle:
    """Every order of the samples is as likely as any other, up to the quality of :class:`Permutation`."""

    n: int
    seed: int = 0

    def rows(self, epoch: int, positions: Int64) -> Int64:
        """Rows at ``positions`` of ``epoch``, (N,) int64."""
        return Permutation(self.n, self.seed, epoch)(positions)


@dataclass(frozen=True)
class BlockShuffle:
    """Blocks of neighbouring samples in random order, shuffled within windows of several blocks.

    Disks and networks read a block in one piece. In exchange a sample meets only those of the
    ``window`` blocks that are drawn together with its own.

    Attributes:
        n: Number of samples.
        seed: Chooses the order.
        block: Neighbouring samples in a block.
        window: Blocks that are read together and shuffled.
    """

    n: int
    seed: int = 0
    block: int = 1024
    window: int = 16

    def __post_init__(self) -> None:
        for name in ("block", "window"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, found {getattr(self, name)}")

    def rows(self, epoch: int, positions: Int64) -> Int64:
        """Rows at ``positions`` of ``epoch``, (N,) int64."""
        span = self.block * self.window
        within = np.empty_like(positions)
        for number in np.unique(positions // span):
            here = np.flatnonzero(positions // span == number)
            start = int(number) * span
            window = Permutation(min(span, self.n - start), self.seed, epoch, int(number) + 1)
            within[here] = start + window(positions[here] - start)
        return self._unblock(epoch, within)

    def _unblock(self, epoch: int, positions: Int64) -> Int64:
        """Rows at ``positions`` when whole blocks are permuted and the short one keeps its length."""
        blocks = -(-self.n // self.block)
        order = Permutation(blocks, self.seed, epoch, 0)
        short = blocks * self.block - self.n
        if not short:
            return order(positions // self.block) * self.block + positions % self.block
        # The short block is the last of the index; what is drawn after it lies ``short`` positions earlier.
        place = int(order.inverse(blocks - 1)[0])
        behind = positions >= place * self.block + self.block - short
        shifted = positions + np.where(behind, short, 0)
        return order(shifted // self.block) * self.block + shifted % self.block


@dataclass(frozen=True)
class Schedule:
    """Which positions of an epoch's order a rank gets at each step.

    Step s takes the global batch of positions ``[start + s * G, start + (s + 1) * G)`` with
    ``G = batch_size * world_size``; rank r takes every ``world_size``-th of them, from the r-th on.
    So the global batch does not depend on how many ranks share it, every rank has the same number
    of steps, and an epoch can be taken up at any position by any number of ranks.

    Attributes:
        n: Samples in an epoch.
        batch_size: Samples a rank and step.
        rank: This rank.
        world_size: Number of ranks.
        last_batch: What becomes of the last global batch when it is short: "drop" leaves it out, "pad"
            fills it with samples from the front of the order, masked, and "partial" hands out what is
            left (a rank may get none of it when fewer samples than ranks are left).
        start: Position at which the epoch is taken up.
    """

    n: int
    batch_size: int
    rank: int = 0
    world_size: int = 1
    last_batch: LastBatch = "partial"
    start: int = 0

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ConfigError(f"batch_size must be at least 1, found {self.batch_size}")
        if not 0 <= self.rank < self.world_size:
            raise ConfigError(f"rank must be in 0..world_size-1, found rank {self.rank} of {self.world_size}")
        if self.last_batch not in ("drop", "pad", "partial"):
            raise ConfigError(f"last_batch must be 'drop', 'pad' or 'partial', found {self.last_batch!r}")
        if not 0 <= self.start <= self.n:
            raise ConfigError(f"start must be in 0..{self.n}, found {self.start}")

    @property
    def global_batch(self) -> int:
        """Samples a step over all ranks."""
        return self.batch_size * self.world_size

    def __len__(self) -> int:
        left = self.n - self.start
        return left // self.global_batch if self.last_batch == "drop" else -(-left // self.global_batch)

    def positions(self, step: int) -> tuple[Int64, npt.NDArray[np.bool_]]:
        """Positions of this rank at ``step``, (N,) int64, and which of them are no padding, (N,) bool."""
        first = self.start + step * self.global_batch + self.rank
        positions = first + self.world_size * np.arange(self.batch_size, dtype=np.int64)
        real = positions < self.n
        if self.last_batch == "pad":
            return positions % self.n, real
        return positions[real], np.ones(int(real.sum()), dtype=np.bool_)

    def consumed(self, steps: int) -> int:
        """Position after ``steps`` steps: where another schedule takes the epoch up."""
        return min(self.n, self.start + steps * self.global_batch)
