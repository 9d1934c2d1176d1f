"""What every loader does: passes, epochs, checkpoints, figures, and an end."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from stoker.errors import ConfigError, LoaderClosedError
from stoker.processes import OwnerProcess

from .arguments import whole_number
from .epoch_iterator import EpochIterator, Progress
from .interrupts import check_owner
from .prefetch import Prefetcher
from .ranks import check_ranks
from .state import State
from .stats import Stats, StatsTotals

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

    from .batch import ColumnSpec, FinishedBatch
    from .prefetch import BatchProducer
    from .ranks import Ranks
    from .threads import Worker

__all__ = ["Loader"]

L = TypeVar("L", bound="Loader")


class Loader(ABC):
    """Base of the loaders; each pass over one is an epoch, the next pass the next one.

    A subclass says which steps an epoch has, and which stage makes their batches. Both are asked for by
    the prefetcher's thread, too, which begins the next pass while the one before is still received.

    Args:
        ranks: This process among those that train together.
        identity: What decides the order and the content of batches, as JSON leaves it.
        samples: Samples in an epoch over all ranks.
        prefetch: Batches that may be ready or under way ahead of the consumer, from 1.

    Raises:
        ConfigError: An epoch has no batch, or an argument cannot be meant.
    """

    def __init__(self, ranks: Ranks, identity: Mapping[str, Any], samples: int, prefetch: int) -> None:
        self._ranks = ranks
        self._identity = identity
        self._samples = samples
        self._prefetch = whole_number("prefetch", prefetch, 1)
        self._next = State(0, 0, identity)
        self._progress: Progress | None = None
        self._pass: weakref.ref[EpochIterator] | None = None
        self._ahead: Prefetcher[FinishedBatch] | None = None  # has begun the pass that self._next names
        self._worker: Worker | None = None  # the last one; two at once would mix their batches
        self._totals = StatsTotals()
        self._closed = False
        self._owner = OwnerProcess()
        if not len(self):
            raise ConfigError(
                "an epoch has no batch: last_batch='drop' leaves out what does not fill one on every rank",
                hint="Take smaller batches, or last_batch='partial' or 'pad'.",
            )

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of a batch."""

    @abstractmethod
    def element_spec(self) -> tuple[ColumnSpec, ...]:
        """Form of the columns of a batch, without the batch axis."""

    @abstractmethod
    def _schedule(self, epoch: int, start: int) -> Any:
        """The :class:`Steps` of ``epoch``, taken up at position ``start``."""

    @abstractmethod
    def _make_producer(self, schedule: Any, epoch: int) -> BatchProducer[FinishedBatch]:
        """What makes the batches of those steps."""

    @abstractmethod
    def _release(self) -> None:
        """Free threads and memory; safe to call twice."""

    def __iter__(self) -> Iterator[Any]:
        """Start the next pass; one that is still running is ended, and begun again if it gave no batch."""
        check_owner(self._owner)
        self._end_pass()
        if self._closed:
            raise LoaderClosedError("this loader is closed", hint="Make a new one.")
        check_ranks(self._ranks)
        if self._progress and not self._progress.received:
            self._next = self._progress.state(self._identity)  # somebody tried if it can be iterated
        state = self._next
        progress = Progress(state.epoch, self._schedule(state.epoch, state.position))
        self._totals.begin()
        batches, self._ahead = self._ahead, None
        if batches is None:
            self._end_worker()
            first = self._make_producer(progress.schedule, state.epoch)
            stages = chain([first], _following(weakref.ref(self), state.epoch))
            batches = Prefetcher(stages, self._prefetch, self._totals)
            self._worker = batches.worker  # before it starts: Ctrl-C may come meanwhile
            self._worker.start()
        running = EpochIterator(self._keep, batches, progress, self._totals)
        self._pass = weakref.ref(running)
        # Last: after an error, or Ctrl-C, the next pass is still this one.
        self._next, self._progress = State(state.epoch + 1, 0, self._identity), progress
        return running

    def __len__(self) -> int:
        """Batches of a whole epoch on this rank."""
        return len(self._schedule(epoch=0, start=0))

    @property
    def has_equal_epochs(self) -> bool:
        """Whether every whole epoch has as many batches as any other."""
        return True

    def __enter__(self: L) -> L:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise LoaderClosedError(
            "a loader has threads and open files, which do not go to another process",
            hint="Make the loader in the process that iterates over it.",
        )

    def set_epoch(self, epoch: int) -> None:
        """The next pass runs this epoch, from its beginning."""
        state = State(whole_number("epoch", epoch, 0), 0, self._identity)
        if state != self._next:
            self._forget_ahead()
        self._next, self._progress = state, None

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is, as a small JSON-able dict.

        It counts what the consumer has received, not what is ready. After a pass that was left early it
        names the next batch of that pass.
        """
        return self._state().to_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was taken: the next pass begins with exactly the next batch.

        The number of ranks, the batch size, the engine and the threads may be others than before.

        Raises:
            CheckpointError: The state belongs to another dataset or configuration; says what differs.
        """
        loaded = State.from_dict(state, self._identity, self._samples)
        self._end_pass()
        self._forget_ahead()
        self._next, self._progress = loaded, None

    def stats(self) -> Stats:
        """What has been loaded since the first pass began, and where the time went."""
        return self._totals.stats()

    def close(self) -> None:
        """End the running pass and free threads and memory; safe to call twice."""
        self._end_pass()
        self._forget_ahead()
        self._end_worker()
        self._closed = True
        if self._owner.is_current():
            self._release()

    def _state(self) -> State:
        return self._progress.state(self._identity) if self._progress else self._next

    def _end_pass(self) -> None:
        running = self._pass() if self._pass else None
        if running is not None:
            running.end()
        self._pass = None

    def _end_worker(self) -> None:
        """Wait for a producer whose pass was dropped, or whose end was interrupted."""
        if self._worker is not None:
            self._worker.end()
            self._worker = None

    def _keep(self, batches: Prefetcher[FinishedBatch]) -> None:
        """Take back a prefetcher whose pass is complete: the next one goes on with it, if it is next."""
        complete = self._progress
        follows = complete and self._next == State(complete.epoch + 1, 0, self._identity)
        if follows and not batches.closed:
            self._ahead = batches
        else:
            batches.close()

    def _forget_ahead(self) -> None:
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None


def _following(reference: weakref.ref[Loader], epoch: int) -> Iterator[BatchProducer[FinishedBatch]]:
    """Stages of the epochs after ``epoch``, for as long as there is the loader, which is not kept alive."""
    while (loader := reference()) is not None:
        epoch += 1
        stage = loader._make_producer(loader._schedule(epoch, start=0), epoch)
        del loader
        yield stage
