"""The workers of a loader: copies of it on other machines, which make batches for it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from stoker.errors import ConfigError, LoaderClosedError
from stoker.processes import Cleanup

from ..execution.pipeline import Producer
from ..execution.stats import StatsTotals, Traffic
from ..execution.threads import WorkerThread
from .batch_maker import LoaderArguments, LoaderIdentity, MadeBatches, StartedBatches, WantedBatches
from .dispatcher import Dispatcher, ImageMemory, SharedProducer
from .ray_pool import PER_WORKER, RayPool
from .ray_workers import RayWorkers

_SPARE = 4  # requests in flight beyond those that keep the workers busy
_LOCAL_REQUESTS = 2  # requests of this process at the same time: one that its engine makes, and the next one
_PATIENCE = 5.0  # seconds for which closing waits for Ray


class Workers:
    """The workers of one loader. They end with :meth:`close`, or when the loader is dropped."""

    def __init__(self, loader: Any, workers: RayWorkers, totals: StatsTotals) -> None:
        if not isinstance(workers, RayWorkers):
            raise ConfigError(f"workers must be a stoker.RayWorkers, found {workers!r}")
        self._loader = weakref.ref(loader)
        self._totals = totals
        arguments = LoaderArguments.of_loader(loader, whole=workers.whole)
        pool = RayPool(workers, arguments, LoaderIdentity.of_loader(loader), loader.process)
        self.in_flight = workers.in_flight or PER_WORKER * max(1, len(pool.workers)) + _SPARE
        self._unfinished = arguments.unfinished
        self._dispatcher = Dispatcher(
            pool,
            local=workers.local,
            limit=_LOCAL_REQUESTS,
            in_flight=self.in_flight,
            memory=ImageMemory(loader.pipeline.allocate),
        )
        thread = WorkerThread(self._dispatcher.run, self._dispatcher.stop, "workers", _PATIENCE)
        self.close = Cleanup(loader, _end, self._dispatcher, thread)
        thread.start()

    @property
    def traffic(self) -> Traffic:
        """Counts of the makers of batches."""
        return self._dispatcher.traffic

    def shared(self, producer: Producer, steps: Any, epoch: int) -> SharedProducer:
        """A producer of the same batches, which this process and the workers make."""
        loader = self._loader()
        assert loader is not None, "the loader calls"
        steering, dispatcher, reference = loader.steering(), self._dispatcher, self._loader

        def ask(position: int, count: int) -> Any:
            wanted = WantedBatches(epoch, position, count, steering)
            return dispatcher.ask(wanted, partial(_begin_here, reference, wanted))

        return SharedProducer(
            steps,
            complete=producer.complete,
            ask=ask,
            together=loader.pipeline.together(steps, unfinished=self._unfinished),
            dispatcher=dispatcher,
            totals=self._totals,
        )


def _begin_here(reference: weakref.ref[Any], wanted: WantedBatches) -> Callable[[], MadeBatches]:
    """Begin some batches in this process; return a function that waits for them."""
    loader = reference()
    if loader is None:
        raise LoaderClosedError("the loader was dropped", hint="Make a new loader.")
    return StartedBatches(loader, wanted).collect


def _end(dispatcher: Dispatcher, thread: WorkerThread) -> None:
    thread.end(_PATIENCE)
    dispatcher.close()
