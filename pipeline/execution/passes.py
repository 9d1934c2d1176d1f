"""Passes over a loader: the iterator that ``iter(loader)`` returns, its progress and its steps."""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from stoker.arguments import whole_number
from stoker.errors import ConfigError, LoaderClosedError
from stoker.log import EventLog

from .batch import FinishedBatch
from .prefetch import BatchProducer, Prefetcher
from .ranks import Process
from .state import State
from .stats import StatsTotals

_LOG = EventLog("samples")


class Steps(Protocol):
    """The steps of an epoch, or of the rest of one, on one rank.

    The ``position`` of a checkpoint counts draws (``OrderedSteps``) or steps of a plan (``PlannedSteps``).
    """

    def __len__(self) -> int: ...

    def consumed(self, steps: int) -> int:
        """The checkpoint's ``position`` after ``steps`` steps."""

    @property
    def last_is_empty(self) -> bool:
        """Whether this rank receives no sample at the last step, and another rank does."""


@dataclass
class Progress:
    """The ``received`` batches of the pass that was started last.

    If an error has stopped the pass, it has ``failed``, and the next pass goes on with its next batch.
    """

    epoch: int
    steps: Steps
    received: int = 0
    failed: bool = False

    def state(self, identity: Mapping[str, Any]) -> State:
        """The state whose next batch follows the last one received."""
        if self.received == len(self.steps):
            return State(self.epoch + 1, 0, identity)
        return State(self.epoch, self.steps.consumed(self.received), identity)


class EpochIterator:
    """The iterator over one pass, which counts what the consumer has received. Threads can share it."""

    def __init__(
        self,
        keep: Callable[[Prefetcher[FinishedBatch], Progress], None],
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
        self._lock = threading.Lock()

    def __iter__(self) -> EpochIterator:
        return self

    def __next__(self) -> Any:
        self._batches.check_process()  # first: in a forked child the lock may stay locked for ever
        # One thread at a time: after the end of the pass the prefetcher has batches of the next one.
        with self._lock:
            return self._receive()

    def _receive(self) -> Any:
        self._check_ended()
        if self._complete:
            raise StopIteration
        try:
            if self._handed_out > len(self._progress.steps):  # an interrupt lost the end of the pass
                raise StopIteration
            finished = next(self._batches)
        except StopIteration:
            if self._handed_out < len(self._progress.steps):
                self._ended = True  # the worker was stopped before the end of the pass
            self._check_ended()  # another thread may have ended the pass meanwhile
            self._complete = True
            self._count()
            self._keep(self._batches, self._progress)
            raise
        except BaseException:
            # An interrupt leaves the prefetcher open, and this iterator goes on.
            self._ended = self._progress.failed = self._batches.closed
            raise
        self._count()
        is_first = not self._totals.bad_keys
        self._totals.receive(finished)
        if finished.bad_keys:
            _report_bad_samples(finished, is_first=is_first)
        if finished.ready:
            finished.ready()
        return finished.batch

    @property
    def _handed_out(self) -> int:
        """Batches of this pass that the prefetcher has handed out, and 1 for the end of the pass."""
        return self._batches.handed_out - self._first

    def _count(self) -> None:
        self._progress.received = min(self._handed_out, len(self._progress.steps))

    def _check_ended(self) -> None:
        if self._ended:
            raise LoaderClosedError(
                "this pass was ended by close(), by a newer pass or by an error",
                hint="After an error iterate over the loader again, which goes on where this pass stood. "
                "A loader runs one pass at a time; make a second loader to run two.",
            )

    @contextmanager
    def exchanged(self) -> Iterator[Callable[[Prefetcher[FinishedBatch]], None]]:
        """Yield a function that takes other batches for the rest of the pass; threads receive none meanwhile.

        A pass that has ended takes none.
        """
        with self._lock:
            yield self._exchange

    def _exchange(self, batches: Prefetcher[FinishedBatch]) -> None:
        self._batches = batches
        self._first = batches.handed_out - self._progress.received

    @property
    def ready(self) -> int:
        """Batches that lie ready."""
        return self._batches.ready

    @property
    def runs(self) -> bool:
        """Whether batches of the pass are still to come."""
        return not (self._ended or self._complete)

    def end(self) -> None:
        """End the pass, and drop the batches that were not received; after a complete pass do nothing."""
        self._ended = self._progress.received < len(self._progress.steps)
        if not self._complete:
            self._batches.close()


def _report_bad_samples(finished: FinishedBatch, *, is_first: bool) -> None:
    what = f"a bad sample was {'skipped' if finished.skipped else 'replaced'}"
    if not is_first:
        _LOG.warning("bad", f"{what}: {', '.join(map(repr, finished.bad_keys))}")
        return
    warnings.warn(
        f"{what}, {finished.bad_keys[0]!r}; "
        "loader.stats() counts them all, and stoker verify --decode lists them",
        stacklevel=4,  # the line of the consumer, above _receive and __next__
    )


class Epochs(Protocol):
    """The epochs of a loader."""

    def steps(self, epoch: int, position: int) -> Any: ...

    def producer(self, steps: Any, epoch: int) -> BatchProducer[FinishedBatch]: ...


class FirstSteps:
    """The first ``count`` of some :class:`.epoch_iterator.Steps`, so that nothing is read behind them."""

    def __init__(self, steps: Any, count: int) -> None:
        self._steps = steps
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._steps, name)


def following_producers(
    first: BatchProducer[FinishedBatch], reference: weakref.ref[Epochs], epoch: int
) -> Iterator[BatchProducer[FinishedBatch]]:
    """Yield ``first``, the producer of ``epoch``, and those of later epochs until the loader is dropped."""
    producer = first
    del first  # the plan of its epoch would stay with it
    yield producer
    while (loader := reference()) is not None:
        epoch += 1
        producer = loader.producer(loader.steps(epoch, 0), epoch)
        del loader
        yield producer


def single_step(
    schedule: Callable[[int, int], Any], ranks: Process, epoch: int, step: int, rank: int | None
) -> Any:
    """Return the steps of an epoch from ``step`` on; see :meth:`.loader.Loader.batch`.

    ``schedule`` returns the :class:`.epoch_iterator.Steps` of an epoch from a checkpoint's position on.
    """
    epoch, step = whole_number("epoch", epoch, 0), whole_number("step", step, 0)
    whole = schedule(epoch, 0)
    if step >= len(whole):
        raise ConfigError(f"epoch {epoch} has no step {step}: its steps are 0 to {len(whole) - 1}")
    steps = schedule(epoch, whole.consumed(step))
    if rank is None:
        return steps
    if whole_number("rank", rank, 0) >= ranks.world_size:
        raise ConfigError(f"there is no rank {rank}: the loader has {ranks.world_size} ranks")
    return replace(steps, rank=rank)
