"""Worker threads, which end before the interpreter does.

Prefetcher and cache fetching run on them. At its end the interpreter stops a daemon thread at the next lock
that the thread takes. Inside C++ this kills the process by a signal. So this module stops each worker and
waits for it before.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain
from queue import Empty, SimpleQueue
from typing import TypeVar

from stoker.errors import LoaderClosedError
from stoker.formats.threads import starting_threads
from stoker.processes import OwnerProcess

T = TypeVar("T")


class OneShotEvent(threading.Event):
    """An event that is set once and never cleared.

    Unlike ``threading.Event`` it has no lock that Python code takes. So a finaliser may set it in a thread
    that waits for it, and an interrupt cannot leave a lock taken.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_set = False
        self._bell: SimpleQueue[None] = SimpleQueue()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """Set the event and wake all threads that wait for it."""
        self._is_set = True
        self._bell.put(None)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for ``timeout`` seconds at most, and return whether the event is set."""
        if not self._is_set:
            with contextlib.suppress(Empty):
                self._bell.get(timeout=timeout)
                self._bell.put(None)  # wakes the next thread that waits
        return self._is_set


def move_next(source: SimpleQueue[Sequence[T]], target: deque[T]) -> None:
    """Wait for the next items of ``source`` and append them to ``target``; an interrupt loses no item."""
    # One call into C does both: Python handles a signal before it or after it, or while it waits.
    target.extend(chain.from_iterable(map(source.get, [True])))


def check_owner(owner: OwnerProcess) -> None:
    """Raise LoaderClosedError in a process that is not the owner of a loader."""
    if not owner.is_current():
        raise LoaderClosedError(
            "this loader was made in another process, whose threads a fork does not copy",
            hint="Make the loader after the fork, one in each process.",
        )


_PREFIX = "stoker-"
_PATIENCE = 5.0  # seconds for which interrupts are put off when the interpreter ends

_running: dict[threading.Thread, WorkerThread] = {}
os.register_at_fork(after_in_child=_running.clear)


class WorkerThread:
    """A daemon thread that another thread can stop and wait for."""

    def __init__(
        self, run: Callable[[], None], stop: Callable[[], None], name: str, patience: float | None = None
    ) -> None:
        self.patience = patience
        self._stop = stop
        self._owner = OwnerProcess()
        self._is_stopping = False
        self._has_begun = False
        self._ended = OneShotEvent()
        self._thread = threading.Thread(target=self._work, args=(run,), name=f"{_PREFIX}{name}", daemon=True)

    def start(self) -> None:
        _running[self._thread] = self  # first: the interpreter may end as soon as the thread runs
        # The last function registered is called first, before libraries that the worker uses, such as DALI.
        atexit.unregister(end_workers)
        atexit.register(end_workers)
        try:
            with starting_threads():
                self._thread.start()
        except RuntimeError:  # the system allows no more threads
            if self._thread.ident is None:  # Ctrl-C during a start that succeeds raises it, too
                del _running[self._thread]
            raise

    def end(self, seconds: float | None = None) -> None:
        """Tell the thread to stop and wait until it has. A forked child has no thread and returns at once."""
        if not self._owner.is_current():
            return
        self._is_stopping = True
        self._stop()
        if threading.current_thread().name.startswith(_PREFIX):
            return
        # Before 3.13 Python considers a thread dead after an interrupt of its join.
        has_thread = self._has_begun or self._thread.is_alive()
        if has_thread and self._ended.wait(seconds):
            self._thread.join(seconds)

    @property
    def is_stopping(self) -> bool:
        return self._is_stopping

    def _work(self, run: Callable[[], None]) -> None:
        self._has_begun = True
        try:
            run()
        finally:
            _running.pop(threading.current_thread(), None)
            self._ended.set()


def stopping() -> bool:
    """Whether the calling thread is a worker's, and :meth:`WorkerThread.end` was called."""
    worker = _running.get(threading.current_thread())
    return worker is not None and worker.is_stopping


def end_workers() -> None:
    """End all workers; put interrupts off for some seconds, since users tend to repeat them."""
    until = None
    while True:
        try:
            return _end_running()
        except KeyboardInterrupt:  # noqa: PERF203 - the loop runs again only after an interrupt
            until = until or time.monotonic() + _PATIENCE
            if time.monotonic() >= until:
                raise


def _end_running() -> None:
    began = time.monotonic()
    ended: set[WorkerThread] = set()
    # Repeated: a worker may have started another one before it was told to stop.
    while workers := [worker for worker in list(_running.values()) if worker not in ended]:
        for worker in workers:
            worker.end(0)  # tells all before it waits for any
        for worker in workers:
            waited = time.monotonic() - began
            worker.end(None if worker.patience is None else max(0.0, worker.patience - waited))
        ended.update(workers)
