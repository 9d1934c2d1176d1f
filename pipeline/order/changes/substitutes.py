"""An order that draws substitutes for samples that are left out; all other draws stay as they are."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker.errors import ConfigError
from stoker.random import hash_words

from ..draws import Balanced, BalancedObjects, MixedOrder
from ..epoch_order import Repeat, Stream
from .ledger import Ledger

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..epoch_order import Order

    Int64 = npt.NDArray[np.int64]

__all__ = ["Substituted", "check_rest", "drawn_at", "groups_of", "original", "substituted"]

_SUBSTITUTE = 0x53554253  # the word of these draws among those of orders
_ATTEMPTS = 64


def substituted(order: Order, ledger: Ledger, seed: int) -> Order:
    """Return an order with substitutes for what a ledger leaves out.

    Args:
        order: The order without a ledger; that of a stream is changed inside, so that the stream does not
            depend on the length of epochs.
        ledger: Its points are numbers of draws over all epochs.
        seed: Decides the substitutes.
    """
    if not ledger:
        return order
    if isinstance(order, Stream):
        return replace(order, order=Substituted(order.order, ledger, seed))
    return Substituted(order, ledger, seed)


def original(order: Order) -> Order:
    """Return the order that :func:`substituted` was given."""
    if isinstance(order, Stream):
        return replace(order, order=original(order.order))
    return order.order if isinstance(order, Substituted) else order


@dataclass(frozen=True, eq=False, repr=False)
class Substituted:
    """An order in which another draw of the same epoch stands in for each draw of an excluded sample.

    The substitute is the sample of a random draw, which is not excluded, of the same dataset of a mixture,
    and with ``ClassBalanced`` of the same class. It depends on the seed, the epoch and the number of the
    draw alone.

    Attributes:
        order: The order whose draws stay as they are.
        ledger: Which samples are excluded from which draw on.
        seed: Decides the substitutes.
    """

    order: Order
    ledger: Ledger
    seed: int
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
        # Points of this epoch at which the ledger grows; what began before the epoch holds from draw 0 on.
        points = {max(0, one.begin[0] - epoch * self.n) for one in self.ledger.exclusions}
        begins = sorted(begin for begin in points if begin < self.n)
        found: Int64 = positions.copy()
        for begin, end in zip(begins, [*begins[1:], self.n], strict=True):
            excluded = self.ledger.at((begin + epoch * self.n,))
            bad = np.flatnonzero((draws >= begin) & (draws < end) & np.isin(positions, excluded))
            if bad.size:
                found[bad] = self._replaced(epoch, draws[bad], positions[bad], excluded)
        return found

    def _replaced(self, epoch: int, draws: Int64, positions: Int64, excluded: Int64) -> Int64:
        """Substitutes, (M,), of excluded ``positions``, (M,), of ``draws``, (M,)."""
        times = self.order.times if isinstance(self.order, Repeat) else 1
        units, groups = draws // times, groups_of(self.order)
        found: Int64 = positions.copy()
        left = np.arange(len(draws))
        for attempt in range(_ATTEMPTS):
            words = hash_words((self.seed, epoch, _SUBSTITUTE, attempt), units[left])
            tried = self.order.positions(epoch, (words % np.uint64(self.n)).astype(np.int64))
            good = ~np.isin(tried, excluded)
            if groups is not None:
                good &= groups[tried] == groups[positions[left]]
            found[left[good]] = tried[good]
            left = left[~good]
            if not left.size:
                return found
        drawn = self.order.positions(epoch, np.arange(self.n))
        allowed = drawn[~np.isin(drawn, excluded)]
        for i in left.tolist():
            mine = allowed if groups is None else allowed[groups[allowed] == groups[positions[i]]]
            if not mine.size:
                raise ConfigError(
                    f"epoch {epoch} draws no sample that could take the place of sample {positions[i]}",
                    hint="Exclude fewer samples of its dataset or class.",
                )
            word = hash_words((self.seed, epoch, _SUBSTITUTE, _ATTEMPTS), units[[i]])[0]
            found[i] = mine[int(word % np.uint64(mine.size))]
        return found


def drawn_at(order: Order, epoch: int, draws: Int64, shown_at: Int64) -> tuple[Int64, Int64]:
    """Positions of draws, as drawn and with substitutes for samples that other draws leave out.

    An image can show other draws of its epoch: a mosaic shows its partners, and padding repeats the first
    draws. Each of these draws gets a substitute if its sample is left out at the draw that shows it.

    Args:
        order: An order, with or without substitutes.
        epoch: Number of the epoch.
        draws: (M,) int64, draws of the epoch.
        shown_at: (M,) int64, the draw of the epoch at which the sample of each draw is shown.

    Returns:
        Positions of the order without substitutes, (M,) int64, and with them.
    """
    plain = original(order)
    positions = plain.positions(epoch, draws)
    within = order.order if isinstance(order, Stream) else order
    if not isinstance(within, Substituted):
        return positions, positions
    found: Int64 = positions.copy()
    points = sorted({one.begin[0] for one in within.ledger.exclusions})
    # As draws of this epoch, whose end stands for what begins after it.
    begins = [min(max(0, point - epoch * order.n), order.n) for point in points]
    begun = np.searchsorted(np.array(begins, np.int64), shown_at, side="right")
    for number in np.unique(begun[begun > 0]).tolist():
        excluded = within.ledger.at((points[number - 1],))
        bad = np.flatnonzero((begun == number) & np.isin(positions, excluded))
        if bad.size:
            lasting = substituted(plain, Ledger().after((0,), excluded), within.seed)
            found[bad] = lasting.positions(epoch, draws[bad])
    return positions, found


def groups_of(order: Any) -> npt.NDArray[Any] | None:
    """(N,) numbers of the group of each position, whose share of the draws is fixed; None without groups."""
    while isinstance(order, (Repeat, Stream, Substituted)):
        order = order.order
    if isinstance(order, Balanced) and not isinstance(order, BalancedObjects):
        return order.column  # an image with objects has several classes
    if isinstance(order, MixedOrder):
        sizes = order.quota_schedule.sizes
        return np.repeat(np.arange(len(sizes)), sizes)
    return None


def check_rest(order: Any, samples: int, excluded: Int64) -> None:
    """Check that every group keeps a sample.

    Args:
        order: The order of the draws.
        samples: Number of samples of the source.
        excluded: (M,) int64, positions of all that is excluded.

    Raises:
        ConfigError: Nothing is left of the source, of a dataset of a mixture, or of a class.
    """
    kept = np.ones(samples, np.bool_)
    kept[excluded] = False
    groups = groups_of(order)
    groups = np.zeros(samples, np.int64) if groups is None else groups
    if lost := sorted(set(np.unique(groups[excluded]).tolist()) - set(np.unique(groups[kept]).tolist())):
        whole = len(np.unique(groups)) == 1
        what = "the dataset" if whole else f"group {lost[0]}, whose share of the draws is fixed"
        raise ConfigError(
            f"exclude would leave no sample of {what}",
            hint="Leave out fewer samples, or make a loader without this dataset or class.",
        )
