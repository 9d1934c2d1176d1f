"""Orders that draw every sample equally often, and orders made from other orders.

:func:`make_order` makes the one that a loader's ``shuffle`` asks for. Each needs constant memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from stoker.arguments import whole_number
from stoker.errors import ConfigError

from .permutation import Permutation

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
