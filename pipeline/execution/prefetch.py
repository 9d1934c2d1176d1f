"""A worker thread that makes a bounded number of batches ahead of the consumer.

It starts batches while there is room, and otherwise finishes the oldest one. So the engine never waits for
its next batch, not even between two epochs.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from queue import Empty, SimpleQueue
from time import monotonic, perf_counter, sleep
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from stoker.processes import OwnerProcess

from .stats import StatsTotals
from .threads import WorkerThread, check_owner, move_next
from .tracing import profiler_range, show_native_ranges

# The shortest sleep. It hands the interpreter to the consumer that waits for the batch; without it the
# consumer runs 5 ms later (sys.getswitchinterval), after the next batch has been planned.
_YIELD = 1e-6

# If less than these seconds lie between two batches, the thread does not sleep: a sleep would cost as much as
# a small batch of text, and the consumer gets the interpreter soon, when the thread waits for a slot.
_SOON = 1e-3

_PATIENCE = 5.0  # seconds that dropping a prefetcher waits for its thread

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class BatchProducer(Protocol[T_co]):
    """The batches of one pass, made by the prefetcher's thread."""

    max_in_flight: int
    """Most starts whose batches are not finished, so that the engine stays busy."""

    def start(self) -> int:
        """Start the next batch, or some small ones together, and return their number; 0 at the end."""

    def finish(self) -> T_co:
        """Wait for the oldest batch that was started and return it."""


class _EndOfPass:
    """Follows the last batch of a producer."""


class _Stopped:
    """Follows everything; ``error`` has stopped the thread."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


_Started: TypeAlias = "tuple[BatchProducer[T], int] | _EndOfPass | _Stopped"


class _Channel(Generic[T]):
    """The state that thread and consumer share; the thread has no reference to the prefetcher itself."""

    def __init__(self, depth: int) -> None:
        self.ready: SimpleQueue[Sequence[T | _EndOfPass | _Stopped]] = SimpleQueue()
        self.handed_over = 0
        self.free_slots: SimpleQueue[None] = SimpleQueue()
        for _ in range(depth):
            self.free_slots.put(None)
        self._is_stopped = False

    def hand_over(self, *items: T | _EndOfPass | _Stopped) -> None:
        self.handed_over += len(items)
        self.ready.put(items)

    def stop(self) -> None:
        self._is_stopped = True
        self.free_slots.put(None)  # the thread may wait for one

    def is_stopped(self) -> bool:
        return self._is_stopped


class Prefetcher(Generic[T]):
    """An iterator over the batches of producers, which a thread makes ``depth`` batches ahead.

    The iterator ends where a producer ends, and then continues with the next producer, whose first batches
    have been started meanwhile. Closing it, dropping it and the end of the interpreter stop the thread after
    the batch that it is making.
    """

    def __init__(self, producers: Iterable[BatchProducer[T]], depth: int, totals: StatsTotals) -> None:
        self._channel: _Channel[T] = _Channel(depth)
        self._totals = totals
        self._owner = OwnerProcess()
        self._closed = False
        self.handed_out = 0
        self._taken: deque[T | _EndOfPass | _Stopped] = deque()  # the rest of the items handed over together
        channel = self._channel
        show_native_ranges()
        self.worker = WorkerThread(lambda: _run(iter(producers), channel, totals), channel.stop, "prefetch")
        # Before the start: an interrupt may come in between.
        self._finalizer = weakref.finalize(self, self.worker.end, _PATIENCE)

    @property
    def closed(self) -> bool:
        """Whether the prefetcher was closed, or an error has stopped it."""
        return self._closed

    @property
    def ready(self) -> int:
        """Batches and ends of passes that lie ready."""
        return self._channel.handed_over - self.handed_out

    def __iter__(self) -> Prefetcher[T]:
        return self

    def check_process(self) -> None:
        """Raise LoaderClosedError in a forked child, which has no copy of the thread."""
        check_owner(self._owner)

    def __next__(self) -> T:
        if self._closed:
            raise StopIteration
        self.check_process()
        if not self._taken:
            began = perf_counter()
            with profiler_range("waiting") or contextlib.nullcontext():
                move_next(self._channel.ready, self._taken)
            self._totals.wait(began, perf_counter())
        item = self._taken[0]
        if isinstance(item, _Stopped):
            self.close()
            self._taken.clear()
            if item.error is None:
                raise StopIteration
            try:
                raise item.error
            finally:
                del item  # the error's traceback refers to this frame, which would keep the loader alive
        if len(self._taken) == 1:
            self._channel.free_slots.put(None)
        self.handed_out += 1  # an interrupt after this line loses the batch, which has been counted
        self._taken.popleft()
        if isinstance(item, _EndOfPass):
            raise StopIteration
        return item

    def close(self) -> None:
        """Stop the thread and drop its batches. A second call completes an interrupted one."""
        self._closed = True
        self.worker.end()
        self._finalizer.detach()


def _run(producers: Iterator[BatchProducer[T]], channel: _Channel[T], totals: StatsTotals) -> None:
    in_flight: deque[_Started[T]] = deque()
    ending = _Stopped()
    try:
        _produce(_started(producers), in_flight, channel, totals)
    except BaseException as error:  # the consumer raises it, whatever it is
        ending = _Stopped(error)
    _drain(in_flight)
    channel.hand_over(ending)
    del ending  # its error's traceback refers to this frame


def _produce(
    started: Iterator[_Started[T]], in_flight: deque[_Started[T]], channel: _Channel[T], totals: StatsTotals
) -> None:
    more, starts, limit, latest = True, 0, 1, 0.0
    while (more or in_flight) and not channel.is_stopped():
        if more and starts < limit and _take_slot(channel, totals, wait=not in_flight):
            if channel.is_stopped():
                return
            newest = next(started)
            in_flight.append(newest)
            if isinstance(newest, _Stopped):
                more = False
            elif not isinstance(newest, _EndOfPass):
                starts, limit = starts + 1, newest[0].max_in_flight
        else:
            oldest = in_flight.popleft()
            if isinstance(oldest, (_EndOfPass, _Stopped)):
                channel.hand_over(oldest)
            else:
                starts -= 1
                _finish(*oldest, channel)
                before, latest = latest, monotonic()
                if latest - before > _SOON:
                    sleep(_YIELD)


def _finish(producer: BatchProducer[T], count: int, channel: _Channel[T]) -> None:
    """Finish the batches of a start, and hand them over together; those before an error are good."""
    finished: list[T] = []
    try:
        finished.extend(producer.finish() for _ in range(count))
    finally:
        if finished:
            channel.hand_over(*finished)
        del finished  # an error's traceback refers to this frame


def _started(producers: Iterator[BatchProducer[T]]) -> Iterator[_Started[T]]:
    """Start batches at each step, and yield their producer and number; an error follows those before it."""
    try:
        for producer in producers:
            while count := producer.start():
                yield producer, count
            yield _EndOfPass()
    except GeneratorExit:
        raise
    except BaseException as error:
        yield _Stopped(error)
    yield _Stopped()


def _take_slot(channel: _Channel[T], totals: StatsTotals, *, wait: bool) -> bool:
    with totals.worker.stage("idle"):
        try:
            channel.free_slots.get(block=wait)
        except Empty:
            return False
    return True


def _drain(in_flight: Iterable[_Started[Any]]) -> None:
    """Leave the engine empty for the next pass."""
    for item in in_flight:
        if not isinstance(item, (_EndOfPass, _Stopped)):
            producer, count = item
            for _ in range(count):
                with contextlib.suppress(BaseException):  # the first error has been handed over already
                    producer.finish()
