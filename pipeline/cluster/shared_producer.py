"""The producer of batches that this process and workers make, which the prefetcher runs."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..execution.batch import FinishedBatch
    from ..execution.epochs.epoch_iterator import Steps
    from ..execution.observation.stats import StatsTotals
    from .dispatcher import Dispatcher
    from .request import Request

__all__ = ["SharedProducer"]


class SharedProducer:
    """The :class:`~stoker.pipeline.execution.prefetch.BatchProducer` of one epoch's batches.

    Args:
        schedule: The steps to run, on this rank.
        complete: Makes a batch of what was made of it, here or on a worker.
        ask: Asks the dispatcher for the batch at a checkpoint's position.
        dispatcher: Has the batches made, in any order.
        totals: Adds up where the time goes.
    """

    def __init__(
        self,
        schedule: Steps,
        complete: Callable[[Any], FinishedBatch],
        ask: Callable[[int], Request],
        dispatcher: Dispatcher,
        totals: StatsTotals,
    ) -> None:
        self.max_in_flight = dispatcher.in_flight
        self._schedule = schedule
        self._complete = complete
        self._ask = ask
        self._dispatcher = dispatcher
        self._totals = totals
        self._next = 0
        self._in_flight: deque[Request] = deque()

    def start(self) -> bool:
        """Ask for the next batch."""
        if self._next == len(self._schedule):
            return False
        self._in_flight.append(self._ask(self._schedule.consumed(self._next)))
        self._next += 1
        return True

    def finish(self) -> FinishedBatch:
        """Wait for the oldest batch that was asked for, and complete it."""
        with self._totals.worker.stage("executing"):
            made = self._dispatcher.wait(self._in_flight.popleft())
        return self._complete(made)
