"""A background thread that works a bounded number of batches ahead of its consumer.

One thread, two verbs: it *starts* batches while there is room and *finishes* the oldest otherwise,
so an engine always has the next batch when it ends one, also across the end of a pass. It owns
nothing named or shared between processes, so there is nothing to leave behind.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections import deque
from queue import Empty, SimpleQueue
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from stoker.errors import LoaderClosedError

from .threads import Worker

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .stats import StatsTotals

__all__ = ["BatchProducer", "Prefetcher"]

# The shortest sleep: it hands the interpreter to the consumer that has been waiting for the batch, and
# would else get it 5 ms later (sys.getswitchinterval), after the next batch has been planned.
_YIELD = 1e-6

_PATIENCE = 5.0  # seconds that dropping a prefetcher waits for its thread

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class BatchProducer(Protocol[T_co]):
    """What a prefetcher runs: the batches of one pass."""

    max_in_flight: int
    """Batches that may be started and not finished: enough to keep the engine busy."""

    def start(self) -> bool:
        """Start the next batch; False when there is none."""

    def finish(self) -> T_co:
        """Wait for the oldest batch started and return it."""


class _EndOfPass:
    """Stands behind the last batch of a stage."""


class _Stopped:
    """Stands behind everything; carries what stopped the producer, if anything did."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


class _Line(Generic[T]):
    """What producer and consumer share; the producer holds no reference to the prefetcher itself.

    It has no lock that is taken in Python: Ctrl-C might come between taking it and being sure to give it
    back, and the collector of garbage call :meth:`stop` where it is held.
    """

    def __init__(self, depth: int) -> None:
        self.ready: SimpleQueue[T | _EndOfPass | _Stopped] = SimpleQueue()
        self.slots: SimpleQueue[None] = SimpleQueue()  # those that are free
        for _ in range(depth):
            self.slots.put(None)
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        self.slots.put(None)  # the producer may wait for one

    def is_stopped(self) -> bool:
        return self._stopped


class Prefetcher(Generic[T]):
    """Iterates over the batches of stages, which run ``depth`` batches ahead on a thread.

    The iterator ends where a stage ends, and then goes on with the next one, whose first batches have
    been started meanwhile. Closing it, dropping it or ending the interpreter all stop the thread after
    the batch it is at. Ctrl-C while a batch is waited for or handed out loses that batch at most.

    Args:
        stages: One a pass; asked for by the thread, when all batches of the one before are started. A stage
            is used by the thread alone until the prefetcher is closed.
        depth: Batches that may be under way or ready at once; the end of a pass counts as one.
        totals: Adds up where the time goes.

    Attributes:
        worker: The thread, to be started. Ending it is enough, also where the prefetcher is gone.
        handed_out: Batches and ends of passes that were handed out.
    """

    def __init__(self, stages: Iterable[BatchProducer[T]], depth: int, totals: StatsTotals) -> None:
        self._line: _Line[T] = _Line(depth)
        self._totals = totals
        self._process = os.getpid()
        self._closed = False
        self.handed_out = 0
        self._taken: deque[T | _EndOfPass | _Stopped] = deque()  # what is being handed out, one at most
        line = self._line
        self.worker = Worker(lambda: _run(iter(stages), line, totals), line.stop, "prefetch")
        # Before the start: an interrupt may come in between.
        self._dropped = weakref.finalize(self, self.worker.end, _PATIENCE)

    @property
    def closed(self) -> bool:
        """Whether it was closed, or an error has stopped it."""
        return self._closed

    def __iter__(self) -> Prefetcher[T]:
        return self

    def check_process(self) -> None:
        """LoaderClosedError in a fork, which has no copy of the thread."""
        if os.getpid() != self._process:
            raise LoaderClosedError(
                "this loader was started in another process",
                hint="Make the loader after the fork, one in each process.",
            )

    def __next__(self) -> T:
        if self._closed:
            raise StopIteration
        self.check_process()
        if not self._taken:
            began = perf_counter()
            # Waiting and taking are one step, so that Ctrl-C comes before both or after both.
            self._taken.extend(map(self._line.ready.get, [True]))
            self._totals.waited += perf_counter() - began
        item = self._taken[0]
        if isinstance(item, _Stopped):
            self.close()
            self._taken.clear()
            if item.error is None:
                raise StopIteration
            try:
                raise item.error
            finally:
                del item  # or the error would hold itself by its traceback, and the loader with it
        self._line.slots.put(None)
        # Nothing comes between these two; what Ctrl-C loses behind them has been counted.
        self.handed_out += 1
        self._taken.popleft()
        if isinstance(item, _EndOfPass):
            raise StopIteration
        return item

    def close(self) -> None:
        """Stop the thread and forget what it made; safe to call twice."""
        self._closed = True
        self.worker.end()  # again, where an interrupt came in between
        self._dropped.detach()


def _run(stages: Iterator[BatchProducer[T]], line: _Line[T], totals: StatsTotals) -> None:
    under_way: deque[BatchProducer[T] | _EndOfPass | _Stopped] = deque()
    ending = _Stopped()
    try:
        _produce(_started(stages), under_way, line, totals)
    except BaseException as error:  # whatever it is, the consumer must hear of it
        ending = _Stopped(error)
    _drain(under_way)
    line.ready.put(ending)
    del ending  # its error has a traceback, which holds this frame


def _produce(
    started: Iterator[BatchProducer[T] | _EndOfPass | _Stopped],
    under_way: deque[BatchProducer[T] | _EndOfPass | _Stopped],
    line: _Line[T],
    totals: StatsTotals,
) -> None:
    more, batches, limit = True, 0, 1
    while (more or under_way) and not line.is_stopped():
        if more and batches < limit and _take_slot(line, totals, wait=not under_way):
            if line.is_stopped():
                return
            newest = next(started)
            under_way.append(newest)
            if isinstance(newest, _Stopped):
                more = False
            elif not isinstance(newest, _EndOfPass):
                batches, limit = batches + 1, newest.max_in_flight
        else:
            oldest = under_way.popleft()
            if isinstance(oldest, (_EndOfPass, _Stopped)):
                line.ready.put(oldest)
            else:
                batches -= 1
                line.ready.put(oldest.finish())
                sleep(_YIELD)


def _started(stages: Iterator[BatchProducer[T]]) -> Iterator[BatchProducer[T] | _EndOfPass | _Stopped]:
    """Starts a batch each time it is asked for one, and gives the stage that will finish it.

    What goes wrong takes its place behind the batches that were started before, which are still good.
    """
    try:
        for stage in stages:
            while stage.start():
                yield stage
            yield _EndOfPass()
    except GeneratorExit:
        raise
    except BaseException as error:
        yield _Stopped(error)
    yield _Stopped()


def _take_slot(line: _Line[T], totals: StatsTotals, *, wait: bool) -> bool:
    began = perf_counter()
    try:
        line.slots.get(block=wait)
    except Empty:
        return False
    finally:
        totals.idle += perf_counter() - began
    return True


def _drain(under_way: Iterable[BatchProducer[Any] | _EndOfPass | _Stopped]) -> None:
    """Leave the engine empty for the next pass."""
    for stage in under_way:
        if not isinstance(stage, (_EndOfPass, _Stopped)):
            with contextlib.suppress(BaseException):  # the first error is on its way already
                stage.finish()
