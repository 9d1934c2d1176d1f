"""One pass over a loader, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from stoker.errors import LoaderClosedError
from stoker.pipeline.state import State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stoker.pipeline.prefetch import Prefetcher
    from stoker.pipeline.stats import Clock

__all__ = ["Pass", "Progress", "Steps"]

T = TypeVar("T")


class Steps(Protocol):
    """The steps of an epoch, or of what is left of one."""

    def __len__(self) -> int: ...

    def consumed(self, steps: int) -> int:
        """Position in the epoch after ``steps`` steps."""


@dataclass
class Progress:
    """How far the consumer is in the pass that was started last."""

    epoch: int
    schedule: Steps
    received: int = 0

    def state(self, identity: Mapping[str, Any]) -> State:
        """Where another pass would go on."""
        if self.received == len(self.schedule):
            return State(self.epoch + 1, 0, identity)
        return State(self.epoch, self.schedule.consumed(self.received), identity)


class Pass(Generic[T]):
    """One pass over a loader, which it keeps alive; counts what the consumer has received."""

    def __init__(self, loader: object, batches: Prefetcher[T], progress: Progress, clock: Clock) -> None:
        self._loader = loader
        self._batches = batches
        self._progress = progress
        self._clock = clock
        self._ended = False

    def __iter__(self) -> Pass[T]:
        return self

    def __next__(self) -> T:
        if self._ended:
            raise LoaderClosedError(
                "this pass was ended by close() or by a newer pass",
                hint="A loader runs one pass at a time; make a second loader to run two.",
            )
        batch = next(self._batches)
        self._progress.received += 1
        self._clock.batches += 1
        self._clock.samples += len(batch[0])  # type: ignore[index]  # a named tuple of columns
        return batch

    def end(self) -> None:
        """Stop working ahead; what was not received is forgotten."""
        self._ended = self._progress.received < len(self._progress.schedule)
        self._batches.close()
