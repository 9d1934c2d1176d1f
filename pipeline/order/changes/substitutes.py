"""An order that draws substitutes for excluded samples; all other draws stay as they are."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError
from stoker.random import hash_words

from ..draws import Balanced, BalancedObjects, MixedOrder
from ..epoch_order import Order, Repeat, Stream
from .ledger import Ledger

Int64 = npt.NDArray[np.int64]

_SUBSTITUTE = 0x53554253  # the word of these draws among those of orders
_ATTEMPTS = 64


@dataclass(frozen=True, eq=False)
class Fitting:
    """A rule that says which samples may replace an excluded one."""

    numbers: npt.NDArray[Any]  # (N,) the group of each position, or its size
    # Whether samples with smaller numbers fit, too; otherwise only those with the same number
    smaller: bool = False

    def allows(self, tried: Int64, replaced: Int64) -> npt.NDArray[np.bool_]:
        """(M,) bool, whether each position of ``tried``, (M,), may replace that of ``replaced``, (M,)."""
        new, old = self.numbers[tried], self.numbers[replaced]
        return np.asarray(new <= old if self.smaller else new == old)

    def check_rest(self, excluded: Int64) -> None:
        """Raise ConfigError if no remaining sample may replace one of ``excluded``, (M,) positions."""
        kept, numbers = np.delete(self.numbers, excluded), self.numbers[excluded]
        lost = ~np.isin(numbers, kept)
        if self.smaller and kept.size:
            lost = numbers < kept.min()
        if lost.any():
            which = f"that could replace sample {excluded[lost][0]}" if kept.size else "of the dataset"
            raise ConfigError(
                f"exclude would leave no sample {which}",
                hint="Leave out fewer samples, or make a loader without its dataset, class or shape.",
            )


def substituted(order: Order, ledger: Ledger, seed: int, fitting: Fitting) -> Order:
    """Return an order with substitutes for the samples that a ledger leaves out."""
    if isinstance(order, Stream):  # inside it, so that the stream does not depend on the length of epochs
        return replace(order, order=Substituted(order.order, ledger, seed, fitting))
    return Substituted(order, ledger, seed, fitting)


def original(order: Order) -> Order:
    """Return the order that :func:`substituted` was given."""
    if isinstance(order, Stream):
        return replace(order, order=original(order.order))
    return order.order if isinstance(order, Substituted) else order


@dataclass(frozen=True, eq=False, repr=False)
class Substituted:
    """An order in which another draw of the same epoch stands in for each draw of an excluded sample.

    The substitute is the sample of a random draw that is not excluded and that ``fitting`` allows. It
    depends only on the seed, the epoch and the number of the draw. :func:`substituted` explains the
    attributes.
    """

    order: Order
    ledger: Ledger
    seed: int
    fitting: Fitting
    distinct: bool = field(init=False)

    def __post_init__(self) -> None:
        # A substitute may be drawn twice in an epoch; random numbers are keyed as without exclusions.
        object.__setattr__(self, "distinct", self.order.distinct)

    def __repr__(self) -> str:
        return repr(self.order)  # states hold the ledger beside it

    @property
    def n(self) -> int:
        """Draws in an epoch."""
        return self.order.n

    def positions(self, epoch: int, draws: Int64) -> Int64:
        """See :meth:`~stoker.pipeline.order.epoch_order.Order.positions`."""
        positions = self.order.positions(epoch, draws)
        # The draws of this epoch at which the ledger grows; exclusions of earlier epochs hold from draw 0 on.
        points = {max(0, exclusion.begin[0] - epoch * self.n) for exclusion in self.ledger.exclusions}
        begins = sorted(begin for begin in points if begin < self.n)
        substitutes: Int64 = positions.copy()
        for begin, end in zip(begins, [*begins[1:], self.n], strict=True):
            excluded = self.ledger.at((begin + epoch * self.n,))
            bad = np.flatnonzero((draws >= begin) & (draws < end) & np.isin(positions, excluded))
            if bad.size:
                substitutes[bad] = self._replaced(epoch, draws[bad], positions[bad], excluded)
        return substitutes

    def _replaced(self, epoch: int, draws: Int64, positions: Int64, excluded: Int64) -> Int64:
        """Substitutes, (M,), of excluded ``positions``, (M,), of ``draws``, (M,)."""
        times = self.order.times if isinstance(self.order, Repeat) else 1
        units = draws // times
        substitutes: Int64 = positions.copy()
        left = np.arange(len(draws))
        for attempt in range(_ATTEMPTS):
            words = hash_words((self.seed, epoch, _SUBSTITUTE, attempt), units[left])
            tried = self.order.positions(epoch, (words % np.uint64(self.n)).astype(np.int64))
            good = ~np.isin(tried, excluded) & self.fitting.allows(tried, positions[left])
            substitutes[left[good]] = tried[good]
            left = left[~good]
            if not left.size:
                return substitutes
        drawn = self.order.positions(epoch, np.arange(self.n))
        allowed = drawn[~np.isin(drawn, excluded)]
        for i in left.tolist():
            fitting = allowed[self.fitting.allows(allowed, positions[[i]])]
            if not fitting.size:
                raise ConfigError(
                    f"epoch {epoch} draws no sample that could replace sample {positions[i]}",
                    hint="Exclude fewer samples of its dataset, class or shape.",
                )
            word = hash_words((self.seed, epoch, _SUBSTITUTE, _ATTEMPTS), units[[i]])[0]
            substitutes[i] = fitting[int(word % np.uint64(fitting.size))]
        return substitutes


def drawn_at(order: Order, epoch: int, draws: Int64, shown_at: Int64) -> tuple[Int64, Int64]:
    """Positions of draws without substitutes, and with those for samples that are left out when shown.

    An image can show other draws of its epoch: a mosaic shows its partners, and padding repeats the first
    draws. Each of these draws gets a substitute if its sample is left out at the draw that shows it.
    """
    # draws (M,) int64, shown_at (M,) int64
    plain = original(order)
    positions = plain.positions(epoch, draws)
    within = order.order if isinstance(order, Stream) else order
    if not isinstance(within, Substituted):
        return positions, positions
    with_substitutes: Int64 = positions.copy()
    points = sorted({exclusion.begin[0] for exclusion in within.ledger.exclusions})
    # As draws of this epoch; its end stands for later points.
    begins = [min(max(0, point - epoch * order.n), order.n) for point in points]
    begun = np.searchsorted(np.array(begins, np.int64), shown_at, side="right")
    for number in np.unique(begun[begun > 0]).tolist():
        excluded = within.ledger.at((points[number - 1],))
        bad = np.flatnonzero((begun == number) & np.isin(positions, excluded))
        if bad.size:
            lasting = substituted(plain, Ledger().after((0,), excluded), within.seed, within.fitting)
            with_substitutes[bad] = lasting.positions(epoch, draws[bad])
    return positions, with_substitutes


def groups_of(order: Any) -> npt.NDArray[Any] | None:
    """(N,) group of each position, where groups have fixed shares of the draws; None without groups."""
    while isinstance(order, (Repeat, Stream, Substituted)):
        order = order.order
    if isinstance(order, Balanced) and not isinstance(order, BalancedObjects):
        return order.column  # an image with objects has several classes
    if isinstance(order, MixedOrder):
        sizes = order.quota_schedule.sizes
        return np.repeat(np.arange(len(sizes)), sizes)
    return None


def fitting_of(order: Order, samples: int) -> Fitting:
    """Return the rule that a sample may replace another one of the same group, for ``samples`` positions."""
    groups = groups_of(order)
    return Fitting(np.broadcast_to(0, samples) if groups is None else groups)
