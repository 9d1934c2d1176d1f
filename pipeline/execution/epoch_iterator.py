"""One pass over a loader, and how far it is."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from stoker.errors import LoaderClosedError

from .state import State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .batch import FinishedBatch
    from .prefetch import Prefetcher
    from .stats import StatsTotals

__all__ = ["EpochIterator", "Progress", "Steps"]


class Steps(Protocol):
    """The steps of an epoch, or of what is left of one."""

    def __len__(self) -> int: ...

    def consumed(self, steps: int) -> int:
        """Position in the epoch after ``steps`` steps."""


@dataclass
class Progress:
    """How far the consumer is in the pass that was started last.

    Attributes:
        epoch: Of the pass.
        schedule: Its steps.
        received: How many of their batches the consumer has.
    """

    epoch: int
    schedule: Steps
    received: int = 0

    def state(self, identity: Mapping[str, Any]) -> State:
        """Where another pass would go on."""
        if self.received == len(self.schedule):
            return State(self.epoch + 1, 0, identity)
        return State(self.epoch, self.schedule.consumed(self.received), identity)


class EpochIterator:
    """One pass over a loader; counts what the consumer has received. Threads may share it.

    Args:
        keep: Takes the prefetcher back at the end of the pass, to go on with the next one; a method of the
            loader, which stays alive for as long as the pass does.
        batches: Makes the batches.
        progress: Where to count.
        totals: Likewise.
    """

    def __init__(
        self,
        keep: Callable[[Prefetcher[FinishedBatch]], None],
        batches: Prefetcher[FinishedBatch],
        progress: Progress,
        totals: StatsTotals,
    ) -> None:
        self._keep = keep
        self._batches = batches
        self._progress = progress
        self._totals = totals
        self._first = batches.handed_out
        self._complete = False
        self._ended = False
        self._turn = threading.Lock()

    def __iter__(self) -> EpochIterator:
        return self

    def __next__(self) -> Any:
        self._batches.check_process()  # a fork copies locks as they were
        # One thread at a time: the batches behind the end are those of the next pass.
        with self._turn:
            return self._receive()

    def _receive(self) -> Any:
        self._check_ended()
        if self._complete:
            raise StopIteration
        try:
            if self._handed_out > len(self._progress.schedule):  # its end, too: Ctrl-C came behind that
                raise StopIteration
            finished = next(self._batches)
        except StopIteration:
            self._check_ended()  # another thread may have, while this one waited
            self._complete = True
            self._count()
            self._keep(self._batches)
            raise
        self._count()
        self._totals.receive(finished)
        if finished.ready:
            finished.ready()
        return finished.batch

    @property
    def _handed_out(self) -> int:
        """Batches, and the end, that were taken out of the prefetcher."""
        return self._batches.handed_out - self._first

    def _count(self) -> None:
        self._progress.received = min(self._handed_out, len(self._progress.schedule))

    def _check_ended(self) -> None:
        if self._ended:
            raise LoaderClosedError(
                "this pass was ended by close() or by a newer pass",
                hint="A loader runs one pass at a time; make a second loader to run two.",
            )

    def end(self) -> None:
        """Stop working ahead, unless that is for the next pass; what was not received is forgotten."""
        self._ended = self._progress.received < len(self._progress.schedule)
        if not self._complete:
            self._batches.close()
