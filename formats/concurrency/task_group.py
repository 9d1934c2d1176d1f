"""Groups of tasks on a pool of threads, for a waiting thread that Ctrl-C may interrupt anywhere."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import Empty, SimpleQueue

_TICK = 0.1  # seconds between two reports of progress, and until an interrupt is noticed


class TaskGroup:
    """Tasks on a pool of threads that a caller waits for together.

    Futures cannot be used here. A wait for them takes their locks in Python; an interrupt at that moment
    leaves a lock taken, and the threads that end the tasks wait for it for ever.
    """

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._ended: SimpleQueue[BaseException | None] = SimpleQueue()
        self.left = 0

    def start(self, task: Callable[[], object]) -> None:
        """Submit a task. It does not run if the pool is shut down before it starts."""
        self._pool.submit(partial(_run, task, self._ended))
        self.left += 1

    def wait(self, show: Callable[[], None]) -> None:
        """Wait until all tasks have ended; call ``show`` after each task and about ten times a second.

        Raises: The error of the first task that fails.
        """
        while self.left:
            try:
                error = self._ended.get(timeout=_TICK)
                self.left -= 1
            except Empty:
                error = None
            if error is not None:
                try:
                    raise error
                finally:
                    del error  # its traceback would keep the data of the task alive
            show()


def _run(task: Callable[[], object], ended: SimpleQueue[BaseException | None]) -> None:
    try:
        task()
    except BaseException as error:
        ended.put(error)
    else:
        ended.put(None)
