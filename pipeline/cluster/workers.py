"""The workers of a loader: copies of it on other machines, which make batches for it.

A request is for a few consecutive batches. A maker, which is a worker or this process, takes the oldest
request that has no maker when it has room, so fast makers take more requests. If a worker dies or takes much
longer than usual, another maker makes the same batches again, and the first answer counts.
"""

from __future__ import annotations

import threading
import weakref
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker._native import BufferPool
from stoker.errors import LoaderClosedError
from stoker.log import EventLog
from stoker.processes import Cleanup

from ..execution.pipeline import Producer, Started
from ..execution.stats import StatsTotals, Traffic
from ..execution.threads import WorkerThread, stopping
from .batch_maker import LoaderArguments, LoaderIdentity, MadeBatches, StartedBatches, WantedBatches
from .ray_pool import PER_WORKER, Answer, RayPool, RayWorker
from .ray_workers import RayWorkers

Allocate = Callable[[tuple[int, ...], str], npt.NDArray[Any]]

_LOG = EventLog("workers")
_SPARE = 4  # requests in flight beyond those that keep the workers busy
_LOCAL_REQUESTS = 2  # requests of this process at the same time: one that its engine makes, and the next one
_KEPT = 4  # requests whose memory is kept for others
_TICK = 0.05  # seconds between two looks for changes
_LISTING = 5.0  # seconds between two looks at the machines of the cluster
_STRAGGLER = 3.0  # multiple of the median time after which a batch is made again
_LEAST = 1.0  # seconds after which a batch may be made again
_SILENCE = 30.0  # seconds for which a call of Ray may last before the cluster counts as lost
_STARTUP = 60.0  # seconds for which batches wait for the first worker where this process makes none
_PATIENCE = 5.0  # seconds for which closing waits for Ray
_KNOWN = 50  # latest times that count for the median


@dataclass(eq=False)
class BatchRequest:
    """Consecutive batches that a producer waits for."""

    number: int  # Requests are made and answered in the order of their numbers
    wanted: WantedBatches
    value: MadeBatches | None = None  # What was made
    error: BaseException | None = None  # The error, if no value was made
    done: bool = False  # Whether there is a value or an error
    # When workers were asked, by the numbers of their machines
    sent: dict[str, float] = field(default_factory=dict)

    def __lt__(self, other: BatchRequest) -> bool:
        return self.number < other.number


class ImageMemory:
    """Memory for images, used again because fresh pages cost more than the copy."""

    def __init__(self, allocate: Allocate | None) -> None:
        self._allocate = allocate
        self._pool = BufferPool(_KEPT)

    def copy(self, answer: Any) -> Any:
        """Copy an answer out of Ray's store, where it is read-only and takes room until it is dropped."""
        batches = getattr(answer, "batches", ())
        arrays = [array for batch in batches for array in getattr(batch, "images", ())]
        self._pool.keep_at_least(_KEPT * len(arrays))
        return deepcopy(answer, {id(array): self._copied(array) for array in arrays})

    def _copied(self, images: Any) -> Any:
        """Copies of images; unfinished images are finished on the way."""
        empty = self._allocate or self._pool.array
        if hasattr(images, "finish"):
            return images.finish(empty)
        copied = empty(images.shape, images.dtype.name)
        np.copyto(copied, images)
        return copied


class Workers:
    """The workers of one loader. They end with ``close()``, or when the loader is dropped.

    The prefetcher's thread and the thread of :meth:`_run` share the requests.
    """

    def __init__(self, loader: Any, workers: RayWorkers, totals: StatsTotals) -> None:
        self._loader = weakref.ref(loader)
        self._totals = totals
        self._local = workers.local
        arguments = LoaderArguments.of_loader(loader, whole=workers.whole)
        self._unfinished = arguments.unfinished
        pool = RayPool(workers, arguments, LoaderIdentity.of_loader(loader), loader.process)
        self._pool: RayPool | None = pool
        self.in_flight = workers.in_flight or PER_WORKER * max(1, len(pool.workers)) + _SPARE
        self.traffic = Traffic()
        self._memory = ImageMemory(loader.pipeline.allocate)
        self._created_at = self._listed_at = self._turned_at = monotonic()
        self._seconds: deque[float] = deque(maxlen=_KNOWN)
        self._next = 0
        self._open: dict[int, BatchRequest] = {}  # those that are asked of workers
        self._pending: list[BatchRequest] = []  # those without a maker, the oldest first
        # In the order of this process's engine.
        self._local_requests: deque[tuple[BatchRequest, StartedBatches]] = deque()
        self._changed = threading.Condition()
        self._stopped = False
        thread = WorkerThread(self._run, self._stop, "workers", _PATIENCE)
        self.close = Cleanup(loader, self._end, thread)
        thread.start()

    def shared(self, producer: Producer, steps: Any, epoch: int) -> Producer:
        """A producer of the same batches, which this process and the workers make."""
        loader = self._loader()
        assert loader is not None, "the loader calls"
        steering, together = loader.steering(), loader.pipeline.together(steps, unfinished=self._unfinished)

        def starts() -> Iterator[Started]:
            done = 0
            while done < len(steps):
                count = min(together(done), len(steps) - done)
                wanted = WantedBatches(epoch, steps.consumed(done), count, steering)
                yield Started(count, self._answered(self._ask(wanted)))
                done += count

        return Producer(starts(), producer.complete, self._totals, self.in_flight)

    def _ask(self, wanted: WantedBatches) -> BatchRequest:
        with self._changed:
            request = BatchRequest(self._next, wanted)
            self._next += 1
            self._pending.append(request)
            try:
                self._ask_workers()
            except Exception as error:  # whatever Ray raises where its own processes are gone
                self._lose(error)
            self._changed.notify_all()
        self._begin_here()
        return request

    def _answered(self, request: BatchRequest) -> Iterator[Any]:
        """Wait for the batches of a request, make batches here meanwhile, and raise its error at the end."""
        while not request.done:
            if stopping():
                self._abandon()
            if not self._make_here():
                with self._changed:
                    if not request.done:
                        self._changed.wait(_TICK)
                    if self._pool and monotonic() - self._turned_at > _SILENCE:
                        self._lose(TimeoutError(f"no answer for {_SILENCE:.0f} seconds"))
        error, request.error = request.error, None
        if request.value is not None:
            batches, error = deque(request.value.batches), request.value.error
            request.value = None
            while batches:
                yield batches.popleft()
        if error:
            try:
                raise error
            finally:
                del error  # its traceback refers to this frame

    def _abandon(self) -> None:
        """Forget all batches, and leave this process's engine empty."""
        with self._changed:
            self._pending.clear()
            self._open.clear()
        for _, started in self._local_requests:
            with suppress(BaseException):  # no thread waits for it any more
                started.collect()
        self._local_requests.clear()
        raise LoaderClosedError("the loader is being stopped", hint="Make a new loader.")

    def _works_here(self) -> bool:
        workers = self._workers()
        if self._local or not workers:
            return True
        is_late = monotonic() - self._created_at > _STARTUP
        return is_late and all(worker.starting is not None for worker in workers)

    def _workers(self) -> list[RayWorker]:
        return [] if self._pool is None else list(self._pool.workers.values())

    def _begin_here(self) -> None:
        """Begin the oldest requests that have no maker, while there is room."""
        while len(self._local_requests) < _LOCAL_REQUESTS:
            with self._changed:
                if not self._pending or not self._works_here():
                    return
                request = self._pending.pop(0)
            try:
                loader = self._loader()
                if loader is None:
                    raise LoaderClosedError("the loader was dropped", hint="Make a new loader.")
                self._local_requests.append((request, StartedBatches(loader, request.wanted)))
            except BaseException as error:  # the producer raises it when the batch has its turn
                self._finish(request, error=error)

    def _make_here(self) -> bool:
        """Finish the oldest request that this process works on; return False if there is none."""
        self._begin_here()
        if not self._local_requests:
            return False
        request, started = self._local_requests.popleft()
        began = monotonic()
        try:
            value = started.collect()
        except BaseException as error:  # likewise
            self._finish(request, error=error)
        else:
            if self._finish(request, value):
                self._count("local", value, value.nbytes, began)
        return True

    def _finish(
        self, request: BatchRequest, value: MadeBatches | None = None, error: BaseException | None = None
    ) -> bool:
        """Take the first answer to a request; return whether it is the first."""
        with self._changed:
            if request.done:
                return False
            request.value, request.error, request.done = value, error, True
            self._open.pop(request.number, None)
            if request in self._pending:  # to be made again
                self._pending.remove(request)
            self._changed.notify_all()
            return True

    def _ask_workers(self) -> None:
        """Give each worker that has room the oldest request that has no maker."""
        for worker in sorted(self._workers(), key=lambda worker: len(worker.running)):
            while self._pool and worker.has_room:
                indices = (i for i, request in enumerate(self._pending) if worker.node not in request.sent)
                if (index := next(indices, None)) is None:
                    break
                request = self._pending.pop(index)
                request.sent[worker.node] = monotonic()
                self._open[request.number] = request
                self._pool.ask(worker, request.number, request.wanted)

    def _run(self) -> None:
        """Take the answers of workers until :meth:`_stop`; a thread runs this."""
        try:
            while not self._stopped and self._pool:
                self._turn(self._pool)
        except Exception as error:  # whatever Ray raises where its own processes are gone
            if not self._stopped:
                self._lose(error)

    def _turn(self, pool: RayPool) -> None:
        """Wait for answers for a moment, and act on what has changed."""
        self._turned_at = monotonic()
        with self._changed:
            references = pool.references()
            if not references:
                self._changed.wait(_TICK)
        answers = pool.answers(references, _TICK) if references else []
        listed = None
        if monotonic() - self._listed_at > _LISTING:
            listed = pool.listed()
            self._listed_at = monotonic()
        answers = [answer._replace(value=self._memory.copy(answer.value)) for answer in answers]
        with self._changed:
            for answer in answers:
                self._take(pool, answer)
            if listed is not None:
                self._again(pool.update(listed))
            self._repeat_stragglers()
            self._ask_workers()
            self._changed.notify_all()

    def _take(self, pool: RayPool, answer: Answer) -> None:
        worker = pool.worker_of(answer.reference)
        if worker is None:
            return
        if answer.died:
            self._again(pool.died(worker, answer.error))
        elif answer.reference is worker.starting:
            pool.started(worker, answer)
        else:
            request = self._open.get(worker.running.pop(answer.reference))
            if request is None or not self._finish(request, answer.value, answer.error):
                return
            asked = request.sent[worker.node]
            self._seconds.append(monotonic() - asked)
            if answer.value is not None:
                self._count(worker.name, answer.value, answer.nbytes, asked)

    def _count(self, maker: str, made: MadeBatches, size: int, asked: float) -> None:
        number, samples = len(made.batches), sum(batch.samples for batch in made.batches)
        self.traffic.add_batches(maker, number, samples, size, asked=asked, received=monotonic())

    def _again(self, numbers: list[int]) -> None:
        """Queue again the requests that lost workers had."""
        running = {number for worker in self._workers() for number in worker.running.values()}
        for number in numbers:
            request = self._open.get(number)
            if request is not None and number not in running:
                request.sent.clear()
                self._queue_again(request)

    def _queue_again(self, request: BatchRequest) -> None:
        if request not in self._pending:
            insort(self._pending, request)
            self.traffic.repeated += request.wanted.count

    def _repeat_stragglers(self) -> None:
        """Queue a second time the requests that take much longer than usual."""
        if len(self._seconds) < 5:
            return
        limit = max(_LEAST, _STRAGGLER * sorted(self._seconds)[len(self._seconds) // 2])
        for request in list(self._open.values()):
            begun = max(request.sent.values(), default=monotonic())
            if monotonic() - begun > limit and len(request.sent) == 1:
                self._queue_again(request)

    def _lose(self, error: Exception) -> None:
        """Go on without workers."""
        _LOG.warning("lost", f"the Ray cluster is lost, this process goes on alone: {error}")
        with self._changed:
            self._pool = None
            self._again(list(self._open))
            self._changed.notify_all()

    def _stop(self) -> None:
        self._stopped = True

    def _end(self, thread: WorkerThread) -> None:
        thread.end(_PATIENCE)
        pool, self._pool = self._pool, None
        if pool:
            pool.close()
