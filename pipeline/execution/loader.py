"""The base class of all loaders: passes, epochs, checkpoints, statistics and closing."""

from __future__ import annotations

import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from operator import index
from types import TracebackType
from typing import Any, TypeVar

from stoker.arguments import whole_number
from stoker.errors import ConfigError, LoaderClosedError
from stoker.processes import OwnerProcess, PerProcess

from .batch import ColumnSpec, FinishedBatch
from .observed import Observed
from .passes import EpochIterator, FirstSteps, Progress, following_producers, single_step
from .prefetch import BatchProducer, Prefetcher
from .ranks import Process, check_ranks
from .refusals import Refusals
from .state import State
from .stats import StatsTotals
from .threads import WorkerThread, check_owner

L = TypeVar("L", bound="Loader")


class Loader(Observed, Refusals, ABC):
    """A loader: each pass over it is one epoch, and the next pass is the next epoch.

    A subclass says which steps an epoch has and makes the producer of their batches. The prefetcher's thread
    also calls these methods: it begins the next pass while the consumer still receives the last one.

    Args:
        ranks: Rank of this process, and number of ranks.
        identity: Everything that determines the order and the content of batches, as JSON data.
        samples: Largest ``position`` of a checkpoint, see :class:`.epoch_iterator.Steps`.
        prefetch: Batches that may be in flight or ready ahead of the consumer, at least 1.

    Raises:
        ConfigError: An epoch has no batch, or ``prefetch`` is no integer from 1.
    """

    def __init__(self, ranks: Process, identity: Mapping[str, Any], samples: int, prefetch: int) -> None:
        self._ranks = ranks
        self._identity = identity
        self._samples = samples
        self._prefetch = whole_number("prefetch", prefetch, 1)
        self._next = State(0, 0, identity)
        self._progress: Progress | None = None
        self._pass: weakref.ref[EpochIterator] | None = None
        self._ahead: Prefetcher[FinishedBatch] | None = None  # has begun the pass of self._next
        self._worker: WorkerThread | None = None  # one at a time: two would mix their batches
        self._totals = StatsTotals()
        self._closed = False
        self._owner = OwnerProcess()
        # Held to begin, move or end a pass, since two threads would take each other's worker.
        self._lock = PerProcess(threading.RLock)
        self._lock.get()
        if not len(self):
            raise ConfigError(
                "an epoch has no batch: last_batch='drop' leaves out draws that fill no batch on every rank",
                hint="Take smaller batches, or last_batch='partial' or 'pad'.",
            )

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of a batch."""

    @abstractmethod
    def element_spec(self) -> tuple[ColumnSpec, ...]:
        """Dtype and shape of each column of a batch, without the batch axis."""

    @abstractmethod
    def _schedule(self, epoch: int, start: int) -> Any:
        """Return the :class:`Steps` of ``epoch`` from a checkpoint's position ``start`` on."""

    @abstractmethod
    def _make_producer(self, schedule: Any, epoch: int) -> BatchProducer[FinishedBatch]:
        """Return the producer of the batches of these steps."""

    @abstractmethod
    def _make_single_producer(
        self, schedule: Any, epoch: int
    ) -> AbstractContextManager[BatchProducer[FinishedBatch]]:
        """Return a producer of these steps that shares nothing with a running pass."""

    def _pass_producer(self, schedule: Any, epoch: int) -> BatchProducer[FinishedBatch]:
        """Return the producer that a pass runs."""
        return self._make_producer(schedule, epoch)

    @abstractmethod
    def _release(self) -> None:
        """Free threads and memory; a second call completes an interrupted one."""

    def __iter__(self) -> Iterator[Any]:
        """Start the next pass.

        A running pass is ended, and begun again if it has handed out no batch. A pass that an error has
        stopped goes on with the batch that was not received.
        """
        check_owner(self._owner)
        with self._lock.get():
            return self._begin_pass()

    def _begin_pass(self) -> EpochIterator:
        self._end_pass()
        if self._closed:
            raise LoaderClosedError("this loader is closed", hint="Make a new loader.")
        check_ranks(self._ranks)
        last = self._progress
        if last and (last.failed or not last.received):  # without a batch, iter() was only a test
            self._next = last.state(self._identity)
        state = self._next
        progress = Progress(state.epoch, self._schedule(state.epoch, state.position))
        self._totals.begin(self._counters())
        batches, self._ahead = self._ahead, None
        if batches is None:
            batches = self._make_batches(progress.steps, state.epoch)
        running = EpochIterator(self._keep, batches, progress, self._totals)
        self._pass = weakref.ref(running)
        # Last: after an error or an interrupt the next pass is still this one.
        self._next, self._progress = State(state.epoch + 1, 0, self._identity), progress
        return running

    def _make_batches(self, steps: Any, epoch: int) -> Prefetcher[FinishedBatch]:
        """Start a thread that makes the batches of these steps and of the following epochs."""
        self._end_worker()
        producers = following_producers(self._pass_producer(steps, epoch), weakref.ref(self), epoch)
        batches = Prefetcher(producers, self._prefetch, self._totals)
        self._worker = batches.worker  # first: an interrupt may come during the start
        self._worker.start()
        return batches

    def _change(self, change: Callable[[], None]) -> None:
        """Call ``change``, which changes the next draws; batches that were made ahead are made anew."""
        running = self._pass() if self._pass else None
        with running.exchanged() if running else nullcontext() as exchange, self._lock.get():
            self._forget_ahead()
            self._end_worker()
            change()
            if exchange and running and running.runs and self._progress:
                done = self._progress
                rest = self._schedule(done.epoch, done.steps.consumed(done.received))
                exchange(self._make_batches(rest, done.epoch))

    def __len__(self) -> int:
        """Batches of a whole epoch on this rank."""
        return len(self._schedule(epoch=0, start=0))

    @property
    def steps_left(self) -> int:
        """Batches from the position of :meth:`state_dict` to the end of its epoch, on this rank."""
        state = self._state()
        return len(self._schedule(state.epoch, state.position))

    @property
    def has_equal_epochs(self) -> bool:
        """Whether all whole epochs have the same number of batches."""
        return True

    def __enter__(self: L) -> L:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def set_epoch(self, epoch: int) -> None:
        """Make the next pass run ``epoch`` from its beginning."""
        state = State(whole_number("epoch", epoch, 0), 0, self._identity)
        with self._lock.get():
            if state != self._next:
                self._forget_ahead()
            self._next, self._progress = state, None

    @property
    def batch_sampler(self: L) -> L:
        """The loader itself, as timm's ``train.py`` calls ``loader.batch_sampler.set_epoch(epoch)``.

        There is no ``sampler``: Lightning would call its ``set_epoch`` after a resume and lose the position.
        """
        return self

    def state_dict(self) -> dict[str, Any]:
        """Return the loader's state as a small dict of JSON data.

        It counts the batches that the consumer has received, not those that are ready. After a pass that was
        left early it names the next batch of that pass.
        """
        return self._state().to_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state``: the next pass begins with exactly the next batch.

        Raises:
            CheckpointError: The state belongs to another loader; the error names what differs.
        """
        loaded = State.from_dict(state, self._identity, self._samples)
        with self._lock.get():
            self._end_pass()
            self._forget_ahead()
            self._next, self._progress = loaded, None

    def batch(self, epoch: int, step: int, *, rank: int | None = None) -> Any:
        """Return any batch, one that was received or one to come, beside a running pass.

        A whole pass over the epoch hands out the same batch at this step. The call does not move the loader's
        position or count in its statistics. It takes longer than a batch of a pass, because nothing is read
        or made ahead.

        Args:
            epoch: Number of the epoch, from 0.
            step: Number of the step in the epoch, from 0.
            rank: Rank that receives the batch; None is the rank of this process.

        Raises:
            ConfigError: There is no such epoch, step or rank.
            SampleError: A sample is bad, as in a pass.
        """
        check_owner(self._owner)
        if self._closed:
            raise LoaderClosedError("this loader is closed", hint="Make a new loader.")
        schedule = single_step(self._schedule, self._ranks, epoch, step, rank)
        with self._make_single_producer(FirstSteps(schedule, 1), index(epoch)) as producer:
            producer.start()
            finished = producer.finish()
        if finished.ready:
            finished.ready()
        return finished.batch

    def _ready_batches(self) -> int:
        running = self._pass() if self._pass else None
        return running.ready if running else 0

    def close(self) -> None:
        """End the running pass and free threads and memory; a second call completes an interrupted one."""
        with self._lock.get():
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
        """End the worker of a pass that was dropped, or whose end was interrupted."""
        if self._worker is not None:
            self._worker.end()
            self._worker = None

    def _keep(self, batches: Prefetcher[FinishedBatch], complete: Progress) -> None:
        """Keep the prefetcher of a complete pass if the next pass is the one that it has begun."""
        with self._lock.get():
            follows = self._next == State(complete.epoch + 1, 0, self._identity)
            if follows and self._progress is complete and not batches.closed:
                self._ahead = batches
            else:
                batches.close()

    def _forget_ahead(self) -> None:
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None
