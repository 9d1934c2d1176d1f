"""Passes over a loader: the thread that makes batches ahead, and the iterator that receives them.

The thread starts batches while there is room, and otherwise finishes the oldest one. So the engine never
waits for its next batch, not even between two epochs.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from time import monotonic, perf_counter, sleep
from typing import Any, TypeAlias

from stoker.errors import LoaderClosedError
from stoker.log import EventLog
from stoker.processes import OwnerProcess

from ..order.schedule import Schedule
from .pipeline import FinishedBatch, Producer
from .state import State
from .stats import StatsTotals, profiler_range, show_native_ranges
from .threads import WorkerThread, check_owner, move_next

# The shortest sleep. It hands the interpreter to the consumer that waits for the batch; without it the
# consumer runs 5 ms later (sys.getswitchinterval), after the next batch has been planned.
_YIELD = 1e-6

# If less than these seconds lie between two batches, the thread does not sleep: a sleep would cost as much as
# a small batch of text, and the consumer gets the interpreter soon, when the thread waits for a slot.
_SOON = 1e-3

_PATIENCE = 5.0  # seconds that dropping a prefetcher waits for its thread


class _EndOfPass:
    """Follows the last batch of a producer."""


class _Stopped:
    """Follows everything; ``error`` has stopped the thread."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


_Item: TypeAlias = FinishedBatch | _EndOfPass | _Stopped
_Started: TypeAlias = tuple[Producer, int] | _EndOfPass | _Stopped


class _Channel:
    """The state that thread and consumer share; the thread has no reference to the prefetcher itself."""

    def __init__(self, depth: int) -> None:
        self.ready: SimpleQueue[Sequence[_Item]] = SimpleQueue()
        self.handed_over = 0
        self.free_slots: SimpleQueue[None] = SimpleQueue()
        for _ in range(depth):
            self.free_slots.put(None)
        self._is_stopped = False

    def hand_over(self, *items: _Item) -> None:
        self.handed_over += len(items)
        self.ready.put(items)

    def stop(self) -> None:
        self._is_stopped = True
        self.free_slots.put(None)  # the thread may wait for one

    def is_stopped(self) -> bool:
        return self._is_stopped


class Prefetcher:
    """An iterator over the batches of producers, which a thread makes ``depth`` batches ahead.

    The iterator ends where a producer ends, and then continues with the next producer, whose first batches
    have been started meanwhile. Closing it, dropping it and the end of the interpreter stop the thread after
    the batch that it is making.
    """

    def __init__(self, producers: Iterable[Producer], depth: int, totals: StatsTotals) -> None:
        self._channel = _Channel(depth)
        self._totals = totals
        self._owner = OwnerProcess()
        self.closed = False  # by :meth:`close`, or because an error has stopped it
        self.handed_out = 0
        self._taken: deque[_Item] = deque()  # the rest of the items handed over together
        channel = self._channel
        show_native_ranges()
        self.worker = WorkerThread(lambda: _run(iter(producers), channel, totals), channel.stop, "prefetch")
        # Before the start: an interrupt may come in between.
        self._finalizer = weakref.finalize(self, self.worker.end, _PATIENCE)

    @property
    def ready(self) -> int:
        """Batches and ends of passes that lie ready."""
        return self._channel.handed_over - self.handed_out

    def __iter__(self) -> Prefetcher:
        return self

    def check_process(self) -> None:
        """Raise LoaderClosedError in a forked child, which has no copy of the thread."""
        check_owner(self._owner)

    def __next__(self) -> FinishedBatch:
        if self.closed:
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
        self.closed = True
        self.worker.end()
        self._finalizer.detach()


def _run(producers: Iterator[Producer], channel: _Channel, totals: StatsTotals) -> None:
    in_flight: deque[_Started] = deque()
    ending = _Stopped()
    try:
        _produce(_started(producers), in_flight, channel, totals)
    except BaseException as error:  # the consumer raises it, whatever it is
        ending = _Stopped(error)
    _drain(in_flight)
    channel.hand_over(ending)
    del ending  # its error's traceback refers to this frame


def _produce(
    started: Iterator[_Started], in_flight: deque[_Started], channel: _Channel, totals: StatsTotals
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


def _finish(producer: Producer, count: int, channel: _Channel) -> None:
    """Finish the batches of a start, and hand them over together; those before an error are good."""
    finished: list[FinishedBatch] = []
    try:
        finished.extend(producer.finish() for _ in range(count))
    finally:
        if finished:
            channel.hand_over(*finished)
        del finished  # an error's traceback refers to this frame


def _started(producers: Iterator[Producer]) -> Iterator[_Started]:
    """Start batches whenever asked, and yield their producer and how many it started; an error comes last."""
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


def _take_slot(channel: _Channel, totals: StatsTotals, *, wait: bool) -> bool:
    with totals.worker.stage("idle"):
        try:
            channel.free_slots.get(block=wait)
        except Empty:
            return False
    return True


def _drain(in_flight: Iterable[_Started]) -> None:
    """Leave the engine empty for the next pass."""
    for item in in_flight:
        if not isinstance(item, (_EndOfPass, _Stopped)):
            producer, count = item
            for _ in range(count):
                with contextlib.suppress(BaseException):  # the first error has been handed over already
                    producer.finish()


EVENTS = EventLog("samples")


@dataclass
class Progress:
    """The ``received`` batches of the pass that was started last.

    If an error has stopped the pass, it has ``failed``, and the next pass goes on with its next batch.
    """

    epoch: int
    steps: Schedule
    start: int = 0  # The checkpoint's position before it
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
        keep: Callable[[Prefetcher, Progress], None],
        batches: Prefetcher,
        progress: Progress,
        totals: StatsTotals,
        form: Callable[[Any], Any] | None = None,
    ) -> None:
        self._form = form
        self._keep = keep
        self._batches = batches
        self.progress = progress
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
            if self._handed_out > len(self.progress.steps):  # an interrupt lost the end of the pass
                raise StopIteration
            finished = next(self._batches)
        except StopIteration:
            if self._handed_out < len(self.progress.steps):
                self._ended = True  # the worker was stopped before the end of the pass
            self._check_ended()  # another thread may have ended the pass meanwhile
            self._complete = True
            self._count()
            self._keep(self._batches, self.progress)
            raise
        except BaseException:
            # An interrupt leaves the prefetcher open, and this iterator goes on.
            self._ended = self.progress.failed = self._batches.closed
            raise
        self._count()
        is_first = not self._totals.bad_keys
        self._totals.receive(finished)
        if finished.bad_keys:
            _report_bad_samples(finished, is_first=is_first)
        if finished.ready:
            finished.ready()
        return self._form(finished.batch) if self._form else finished.batch

    @property
    def _handed_out(self) -> int:
        """Batches of this pass that were received, and 1 for the end of the pass."""
        return self._batches.handed_out - self._first

    def _count(self) -> None:
        self.progress.received = min(self._handed_out, len(self.progress.steps))

    def _check_ended(self) -> None:
        if self._ended:
            raise LoaderClosedError(
                "this pass was ended by close(), by a newer pass or by an error",
                hint="After an error iterate over the loader again, which goes on where this pass stood. "
                "A loader runs one pass at a time; make a second loader to run two.",
            )

    def paused(self) -> threading.Lock:
        """A context in which no thread receives a batch."""
        return self._lock

    def exchange(self, batches: Prefetcher) -> None:
        """Take other batches for the rest of the pass; only while it is paused."""
        self._batches = batches
        self._first = batches.handed_out - self.progress.received

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
        self._ended = self.progress.received < len(self.progress.steps)
        if not self._complete:
            self._batches.close()


def _report_bad_samples(finished: FinishedBatch, *, is_first: bool) -> None:
    what = f"a bad sample was {'skipped' if finished.skipped else 'replaced'}"
    if not is_first:
        EVENTS.warning("bad", f"{what}: {', '.join(map(repr, finished.bad_keys))}")
        return
    warnings.warn(
        f"{what}, {finished.bad_keys[0]!r}; "
        "loader.stats() counts them all, and stoker verify --decode lists them",
        stacklevel=4,  # the line of the consumer, above _receive and __next__
    )


class FirstSteps:
    """The first ``count`` of some steps, so that nothing is read behind them."""

    def __init__(self, steps: Any, count: int) -> None:
        self._steps = steps
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._steps, name)


def following_producers(first: Producer, reference: weakref.ref[Any], epoch: int) -> Iterator[Producer]:
    """Yield ``first``, the producer of ``epoch``, and later producers until the loader is dropped."""
    producer = first
    del first  # the plan of its epoch would stay with it
    yield producer
    while (loader := reference()) is not None:
        epoch += 1
        producer = loader.producer(loader.steps(epoch, 0), epoch)
        del loader
        yield producer
