"""A background thread that works a bounded number of batches ahead of its consumer.

One thread, two verbs: it *starts* batches while there is room and *finishes* the oldest otherwise,
so an engine always has the next batch when it ends one. It owns nothing named or shared between
processes, so there is nothing to leave behind.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import weakref
from queue import SimpleQueue
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from stoker.errors import LoaderClosedError

if TYPE_CHECKING:
    from stoker.pipeline.stats import Clock

__all__ = ["Prefetcher", "Stage"]

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Stage(Protocol[T_co]):
    """What a prefetcher runs."""

    under_way_limit: int
    """Batches that may be started and not finished: enough to keep the engine busy."""

    def start(self) -> bool:
        """Start the next batch; False when there is none."""

    def finish(self) -> T_co:
        """Wait for the oldest batch started and return it."""


class _Ending:
    """Stands behind the last batch; carries what stopped the producer, if anything did."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


class _Line(Generic[T]):
    """What producer and consumer share; the producer holds no reference to the prefetcher itself."""

    def __init__(self, depth: int) -> None:
        self.ready: SimpleQueue[T | _Ending] = SimpleQueue()
        self.slots = threading.Semaphore(depth)
        self.stopped = threading.Event()


class Prefetcher(Generic[T]):
    """Iterates over the batches of a stage, which runs ``depth`` batches ahead on a thread.

    Leaving the loop early, closing twice, dropping the object or ending the interpreter all stop the
    thread after the batch it is at.

    Args:
        stage: Starts and finishes batches; used by the thread alone until the prefetcher is closed.
        depth: Batches that may be under way or ready at once.
        clock: Adds up where the time goes.
    """

    def __init__(self, stage: Stage[T], depth: int, clock: Clock) -> None:
        self._line: _Line[T] = _Line(depth)
        self._clock = clock
        self._process = os.getpid()
        self._ended = False
        thread = threading.Thread(
            target=_run, args=(stage, self._line, clock), name="stoker-prefetch", daemon=True
        )
        # Before the start: an interrupt may come in between.
        self._stop = weakref.finalize(self, _stop, self._line, thread, os.getpid())
        thread.start()

    def __iter__(self) -> Prefetcher[T]:
        return self

    def __next__(self) -> T:
        if self._ended:
            raise StopIteration
        if os.getpid() != self._process:
            raise LoaderClosedError(
                "this loader was started in another process",
                hint="Make the loader after the fork, one in each process.",
            )
        began = perf_counter()
        item = self._line.ready.get()
        self._clock.waited += perf_counter() - began
        if isinstance(item, _Ending):
            self.close()
            if item.error is not None:
                raise item.error
            raise StopIteration
        self._line.slots.release()
        return item

    def close(self) -> None:
        """Stop the thread and forget what it made; safe to call twice."""
        self._ended = True
        self._stop()


# Producers that run. An interrupt may have kept a prefetcher from waiting for its own, and a thread that
# is inside an engine when the interpreter goes away would end the process by a signal.
_running: dict[threading.Thread, _Line[Any]] = {}


@atexit.register
def _stop_all() -> None:
    for thread, line in list(_running.items()):
        _stop(line, thread, os.getpid())


os.register_at_fork(after_in_child=_running.clear)


def _run(stage: Stage[T], line: _Line[T], clock: Clock) -> None:
    _running[threading.current_thread()] = line
    try:
        _produce(stage, line, clock)
    finally:
        _running.pop(threading.current_thread(), None)


def _produce(stage: Stage[T], line: _Line[T], clock: Clock) -> None:
    under_way = 0
    ending = _Ending()
    try:
        more = True
        while more or under_way:
            if more and under_way < stage.under_way_limit and _take_slot(line, clock, wait=not under_way):
                if line.stopped.is_set():
                    break
                more = stage.start()
                under_way += more
                if not more:
                    line.slots.release()
            elif under_way:
                under_way -= 1
                line.ready.put(stage.finish())
                if line.stopped.is_set():
                    break
    except BaseException as error:  # whatever it is, the consumer must hear of it
        ending = _Ending(error)
    _drain(stage, under_way)
    line.ready.put(ending)


def _take_slot(line: _Line[T], clock: Clock, *, wait: bool) -> bool:
    began = perf_counter()
    taken = line.slots.acquire(blocking=wait)
    clock.idle += perf_counter() - began
    return taken


def _drain(stage: Stage[T], under_way: int) -> None:
    """Leave the engine empty for the next pass."""
    for _ in range(under_way):
        with contextlib.suppress(
            BaseException
        ):  # the pass is over, and its first error is on its way already
            stage.finish()


def _stop(line: _Line[T], thread: threading.Thread, process: int) -> None:
    if os.getpid() != process:
        return  # a forked child has no such thread
    line.stopped.set()
    line.slots.release()
    if thread is not threading.current_thread() and thread.is_alive():
        thread.join()
