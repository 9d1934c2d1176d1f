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
    from .request import BatchRequest


class SharedProducer:
    """The :class:`~stoker.pipeline.execution.prefetch.BatchProducer` of one epoch's batches."""

    def __init__(
        self,
        schedule: Steps,
        *,
        complete: Callable[[Any], FinishedBatch],
        ask: Callable[[int, int], BatchRequest],
        together: Callable[[int], int],
        dispatcher: Dispatcher,
        totals: StatsTotals,
    ) -> None:
        self.max_in_flight = dispatcher.in_flight
        self._schedule = schedule
        self._complete = complete
        self._ask = ask
        self._together = together
        self._dispatcher = dispatcher
        self._totals = totals
        self._next = 0
        self._in_flight: deque[BatchRequest] = deque()
        self._outcomes: deque[Any] = deque()  # of the oldest request: batches to hand out, then its error

    def start(self) -> int:
        """Ask for the next batches; return their number."""
        if self._next == len(self._schedule):
            return 0
        count = min(self._together(self._next), len(self._schedule) - self._next)
        self._in_flight.append(self._ask(self._schedule.consumed(self._next), count))
        self._next += count
        return count

    def finish(self) -> FinishedBatch:
        """Wait for the oldest batch that was asked for, and complete it."""
        if not self._outcomes:
            with self._totals.worker.stage("executing"):
                answer = self._dispatcher.wait(self._in_flight.popleft())
            self._outcomes.extend((*answer.batches, *([answer.error] if answer.error else ())))
        outcome = self._outcomes.popleft()
        try:
            if isinstance(outcome, Exception):
                raise outcome
            return self._complete(outcome)
        except BaseException:
            self._outcomes.clear()  # nothing after an error is handed out
            raise
        finally:
            del outcome  # an error's traceback refers to this frame
