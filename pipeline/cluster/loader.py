"""The base of loaders that can have workers on other machines.

The classes of checkpoints of images and of text derive from :class:`SharedLoader`.
"""

from __future__ import annotations

import weakref
from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from stoker.errors import ConfigError, LoaderClosedError
from stoker.processes import Cleanup

from ..execution.batch import FinishedBatch
from ..execution.prefetch import BatchProducer
from ..execution.threads import WorkerThread
from ..steered_loader import SteeredLoader
from .batch_maker import LoaderArguments, LoaderIdentity, StartedBatches, WantedBatches
from .dispatcher import Dispatcher, ImageMemory, SharedProducer
from .ray_pool import PER_WORKER, RayPool
from .ray_workers import RayWorkers

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..execution.stats import Traffic
    from .batch_maker import MadeBatches
    from .dispatcher import Allocate

_SPARE = 4  # requests in flight beyond those that keep the workers busy
_LOCAL_REQUESTS = 2  # requests of this process at the same time: one that its engine makes, and the next one
_PATIENCE = 5.0  # seconds for which closing waits for Ray


class _CompletingProducer(BatchProducer[FinishedBatch], Protocol):
    """A producer that also completes what another machine has made."""

    def complete(self, collected: Any) -> FinishedBatch: ...


class SharedLoader(SteeredLoader):
    """A loader whose batches are made by this process and by workers."""

    _dispatcher: Dispatcher | None = None
    _end_workers: Cleanup | None = None
    _history: Any
    _unfinished = False

    def _options_elsewhere(self) -> dict[str, Any]:
        """Arguments with which a copy makes the same batches, where its defaults may differ from here."""
        return {}

    @property
    def _finishes_images(self) -> bool:
        """Whether workers can send images as uint8, in fewer bytes, for this process to finish."""
        return False

    @property
    def _allocate(self) -> Allocate | None:
        """Makes the arrays of images, if they need memory of some kind, such as page-locked memory."""
        return None

    def _together(self, schedule: Any, *, unfinished: bool) -> Callable[[int], int]:
        """How many batches to request together from a step on: at least one, and more if they are small."""
        raise NotImplementedError

    @abstractmethod
    def _make_producer(self, schedule: Any, epoch: int) -> _CompletingProducer:
        """See :class:`Loader`."""

    def _leave_unfinished(self) -> None:
        """Leave all images for another process to finish, as the copy of a loader on a worker does."""
        raise NotImplementedError

    @property
    def _steering(self) -> Any:
        """What decides batches and has changed since the loader was made: exclusions and changes of ranks."""
        return self._ledger, self._history

    def _steer(self, steering: Any) -> None:
        """Change as another loader has, which was made with the same arguments."""
        ledger, self._history = steering
        if ledger != self._ledger:
            self._use_ledger(ledger)

    def _use_workers(self, workers: RayWorkers | None) -> None:
        """Start the workers of the argument ``workers``; called at the end of a loader's construction."""
        self._dispatcher = None
        if workers is None:
            return
        if not isinstance(workers, RayWorkers):
            raise ConfigError(f"workers must be a stoker.RayWorkers, found {workers!r}")
        self._unfinished = self._finishes_images and not workers.whole
        arguments = LoaderArguments.of_loader(self, self._options_elsewhere(), unfinished=self._unfinished)
        pool = RayPool(workers, arguments, LoaderIdentity.of_loader(self), self._ranks)
        in_flight = workers.in_flight or PER_WORKER * max(1, len(pool.workers)) + _SPARE
        self._prefetch += in_flight
        self._dispatcher = Dispatcher(
            pool,
            local=workers.local,
            limit=_LOCAL_REQUESTS,
            in_flight=in_flight,
            memory=ImageMemory(self._allocate),
        )
        thread = WorkerThread(self._dispatcher.run, self._dispatcher.stop, "workers", _PATIENCE)
        self._end_workers = Cleanup(self, _end, self._dispatcher, thread)
        thread.start()

    def _pass_producer(self, schedule: Any, epoch: int) -> BatchProducer[FinishedBatch]:
        producer = self._make_producer(schedule, epoch)
        if self._dispatcher is None:
            return producer
        steering, reference = self._steering, weakref.ref(self)

        def ask(position: int, count: int) -> Any:
            wanted = WantedBatches(epoch, position, count, steering)
            return dispatcher.ask(wanted, partial(_begin_here, reference, wanted))

        dispatcher = self._dispatcher
        together = self._together(schedule, unfinished=self._unfinished)
        return SharedProducer(
            schedule,
            complete=producer.complete,
            ask=ask,
            together=together,
            dispatcher=dispatcher,
            totals=self._totals,
        )

    def _traffic(self) -> Traffic | None:
        return self._dispatcher.traffic if self._dispatcher else None

    def close(self) -> None:
        """End the running pass and free threads, memory and workers; see :meth:`Loader.close`."""
        super().close()
        if self._end_workers:
            self._end_workers()


def _begin_here(reference: weakref.ref[SharedLoader], wanted: WantedBatches) -> Callable[[], MadeBatches]:
    """Begin some batches in this process; return a function that waits for them."""
    loader = reference()
    if loader is None:
        raise LoaderClosedError("the loader was dropped", hint="Make a new loader.")
    return StartedBatches(loader, wanted).collect


def _end(dispatcher: Dispatcher, thread: WorkerThread) -> None:
    thread.end(_PATIENCE)
    dispatcher.close()
