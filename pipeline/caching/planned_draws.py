"""The draws of a loader's epochs, which are planned ahead: they tell when a cache needs each block again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..order.changes.substitutes import original
from ..order.epoch_order import Order, Stream
from ..order.sample_source import SampleSource

Int64 = npt.NDArray[np.int64]

__all__ = ["STEPS", "PlannedDraws", "draws_of_order"]

STEPS = 1 << 32
"""Moments of an epoch that is planned by steps: more than any epoch has."""

_CHUNK = 1 << 16  # draws that are ordered at once


@dataclass(frozen=True)
class PlannedDraws:
    """The draws of every epoch, on all ranks.

    A moment is the number of a draw, or of a step, in its epoch. ``epoch * moments + moment`` counts them
    over all epochs.

    Attributes:
        moments: Moments of an epoch, or more.
        count: Draws of an epoch, about.
        drawn: Returns the draws of an epoch: (K,) int64, their moments, and (K,) int64, the index rows of
            their samples, counted through all datasets of a mixture.
        order: The order of the draws, if they are those of all rows of one dataset.
    """

    moments: int
    count: int
    drawn: Callable[[int], tuple[Int64, Int64]]
    order: Order | None = None


def draws_of_order(order: Order, source: SampleSource) -> PlannedDraws:
    """Return the draws of an order from a source.

    Moments are draws. A stream has those of the order that it cuts, which count on in the same way.
    """
    order = original(order)
    whole = order.order if isinstance(order, Stream) else order

    def drawn(epoch: int) -> tuple[Int64, Int64]:
        draws = np.arange(whole.n)
        parts = np.split(draws, range(_CHUNK, whole.n, _CHUNK))
        positions = np.concatenate([whole.positions(epoch, part) for part in parts])
        return draws, source.rows[positions]

    return PlannedDraws(whole.n, whole.n, drawn, whole)
