"""Threads that work in the background and have ended before the interpreter does.

An interpreter that ends stops daemon threads at the next lock that they ask for. Where that is inside
C++, ours or NumPy's, the process dies of a signal; so each is told to stop, and waited for, before.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["StopEvent", "Worker", "stopping"]

_PREFIX = "stoker-"
_PATIENCE = 5.0  # seconds in which Ctrl-C does not end the wait at the interpreter's end


class Worker:
    """A thread, a daemon so that nothing but :meth:`end` waits for it.

    Args:
        run: What it does. It must not hold a reference to whoever is to end it by being dropped.
        stop: Has ``run`` return soon; called in any thread, any number of times.
        name: Of the thread, after ``stoker-``.
        patience: Seconds that the interpreter's end waits for it; None for as long as it takes.
    """

    def __init__(
        self, run: Callable[[], None], stop: Callable[[], None], name: str, patience: float | None = None
    ) -> None:
        self.patience = patience
        self._stop = stop
        self._process = os.getpid()
        self._is_stopping = False
        self._is_at_work = False
        self._waiting: list[SimpleQueue[None]] = []
        self._thread = threading.Thread(target=self._work, args=(run,), name=f"{_PREFIX}{name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        _running[self._thread] = self  # before it runs: the interpreter may end right then
        # What is registered last is called first: before libraries that the worker uses, such as DALI, go.
        atexit.unregister(_end_all)
        atexit.register(_end_all)
        try:
            self._thread.start()
        except RuntimeError:  # there are as many threads as there may be
            if self._thread.ident is None:  # not what Ctrl-C became while the start was waited for
                del _running[self._thread]
            raise

    def end(self, seconds: float | None = None) -> None:
        """Tell the thread to stop and wait until it has; nothing happens in a forked child, which has none.

        Args:
            seconds: Longest wait. The collector of garbage may call this in a thread that holds a lock which
                the worker needs: it must not wait for ever. It never waits in another worker.
        """
        if os.getpid() != self._process:
            return
        self._is_stopping = True
        self._stop()
        if threading.current_thread().name.startswith(_PREFIX):
            return
        if self._thread.is_alive():
            self._thread.join(seconds)
        else:
            self._wait(seconds)

    @property
    def is_stopping(self) -> bool:
        """Whether :meth:`end` was called."""
        return self._is_stopping

    def _wait(self, seconds: float | None) -> None:
        """Wait for a thread that counts as dead: to Python before 3.13 it is since Ctrl-C came in a join."""
        ended: SimpleQueue[None] = SimpleQueue()
        self._waiting.append(ended)
        if self._is_at_work:
            with contextlib.suppress(Empty):
                ended.get(timeout=seconds)

    def _work(self, run: Callable[[], None]) -> None:
        self._is_at_work = True
        try:
            run()
        finally:
            _running.pop(threading.current_thread(), None)
            self._is_at_work = False
            for ended in list(self._waiting):
                ended.put(None)


class StopEvent(threading.Event):
    """An event that is set once, and never cleared; in any thread, at any moment.

    It has no lock that is taken in Python: Ctrl-C might come between taking it and being sure to give it
    back, and the collector of garbage set the event where it is held.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_set = False
        self._bell: SimpleQueue[None] = SimpleQueue()

    def is_set(self) -> bool:
        """Whether it was set."""
        return self._is_set

    def set(self) -> None:
        """Set it, and wake all who wait."""
        self._is_set = True
        self._bell.put(None)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, ``timeout`` seconds at most; whether it is."""
        if not self._is_set:
            with contextlib.suppress(Empty):
                self._bell.get(timeout=timeout)
                self._bell.put(None)  # for the next who waits
        return self._is_set


# Those that run: whoever should have ended them may have been interrupted, or forgotten them.
_running: dict[threading.Thread, Worker] = {}


def _end_all() -> None:
    """End those that run; Ctrl-C, which people press more than once, only where it takes too long."""
    until = None
    while True:
        try:
            return _end_running()
        except KeyboardInterrupt:  # noqa: PERF203 - it is waited for all the time
            now = time.monotonic()
            until = until or now + _PATIENCE
            if now >= until:
                raise


def _end_running() -> None:
    began = time.monotonic()
    ended: set[Worker] = set()
    # More than once: a worker may have started another before it heard that it is to stop.
    while workers := [worker for worker in list(_running.values()) if worker not in ended]:
        for worker in workers:
            worker.end(0)  # all are told before any is waited for
        for worker in workers:
            waited = time.monotonic() - began
            worker.end(None if worker.patience is None else max(0.0, worker.patience - waited))
        ended.update(workers)


os.register_at_fork(after_in_child=_running.clear)


def stopping() -> bool:
    """Whether the worker in whose thread this is asked is being ended: nobody wants what it waits for."""
    worker = _running.get(threading.current_thread())
    return worker is not None and worker.is_stopping
