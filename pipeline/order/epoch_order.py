"""In which order samples are drawn, and which rank gets which: pure functions, O(1) memory.

Everything is a function of a position in the epoch, so an epoch starts at once at any position, a
checkpoint is a number, and a reader knows every byte that comes next.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

from ..execution.arguments import whole_number
from .permutation import Permutation

__all__ = [
    "BlockShuffle",
    "FullShuffle",
    "LastBatch",
    "Order",
    "Repeat",
    "Schedule",
    "Sequential",
    "Stream",
    "make_order",
]

LastBatch = Literal["drop", "pad", "partial"]
Int64 = npt.NDArray[np.int64]


class Order(Protocol):
    """Which row is drawn at each position of an epoch. Its ``repr`` names it in checkpoints."""

    @property
    def n(self) -> int:
        """Draws in an epoch."""

    @property
    def distinct(self) -> bool:
        """Whether an epoch draws no row twice."""

    def rows(self, epoch: int, positions: Int64) -> Int64:
        """Rows at ``positions``, (N,) int64 in ``range(n)``, of ``epoch``."""


@dataclass(frozen=True)
class Sequential:
    """The order of the index."""

    n: int
    distinct = True

    def rows(self, epoch: int, positions: Int64) -> Int64:
        """Rows at ``positions``: themselves."""
        return positions


@dataclass(frozen=True)
class FullShuffle:
    """Every order of the samples is as likely as any other, up to the quality of :class:`Permutation`."""

    n: int
    seed: int = 0
    distinct = True

    def rows(self, epoch: int, positions: Int64) -> Int64:
        """Rows at ``positions`` of ``epoch``, (N,) int64."""
        return Permutation(self.n, self.seed, epoch)(positions)


@dataclass(frozen=True)
class BlockShuffle:
    """Blocks of neighbouring samples in random order, shuffled within windows of several blocks.

    Disks and networks read a block in one piece. In exchange a sample meets only those of the
    ``window`` blocks that are drawn together with its own.

    Attributes:
        n: Number of samples; a loader that is given one fills in this and the seed.
        seed: Chooses the order.
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


def make_order(n: int, shuffle: bool | BlockShuffle, seed: int) -> Order:
    """The order of n samples that a loader's ``shuffle`` asks for.

    Raises:
        ConfigError: It is neither a bool nor a :class:`BlockShuffle`.
    """
    if isinstance(shuffle, BlockShuffle):
        return replace(shuffle, n=n, seed=seed)
    if not isinstance(shuffle, bool):
        raise ConfigError(f"shuffle must be True, False or a BlockShuffle, found {shuffle!r}")
    return FullShuffle(n, seed) if shuffle else Sequential(n)


@dataclass(frozen=True)
class Repeat:
    """Every draw of another order ``times`` in a row, so that they go to different ranks.

    Attributes:
        order: What is repeated.
        times: How often.
        n: Draws in an epoch, at most ``order.n * times``.
    """

    order: Order
    times: int
    n: int

    @property
    def distinct(self) -> bool:
        """Whether an epoch draws no row twice."""
        return self.times == 1 and self.order.distinct

    def rows(self, epoch: int, positions: Int64) -> Int64:
        """Rows at ``positions`` of ``epoch``, (N,) int64."""
        return self.order.rows(epoch, positions // self.times)


@dataclass(frozen=True)
class Stream:
    """The epochs of another order one after the other, cut into epochs of another length.

    Attributes:
        order: What is drawn from.
        n: Draws in an epoch. Two streams that differ in it alone are the same stream.
    """

    order: Order
    n: int = field(repr=False)
    distinct = False

    def rows(self, epoch: int, positions: Int64) -> Int64:
        """Rows at ``positions`` of ``epoch``, (N,) int64."""
        first, offset = divmod(epoch * self.n, self.order.n)
        lap, place = np.divmod(offset + positions, self.order.n)
        rows = np.empty_like(positions)
        for number in np.unique(lap):
            here = np.flatnonzero(lap == number)
            rows[here] = self.order.rows(first + int(number), place[here])
        return rows

    def place(self, epoch: int, positions: Int64) -> Int64:
        """Where ``positions`` of ``epoch`` are in the stream, however it is cut into epochs, (N,) int64."""
        return epoch * self.n % (1 << 62) + positions


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
