"""Tasks on the threads of a pool, for a thread that Ctrl-C may interrupt anywhere while it waits for them."""

from __future__ import annotations

from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

__all__ = ["TaskGroup"]

_TICK = 0.1  # seconds between two looks at progress, and to an interrupt


class TaskGroup:
    """Tasks that are waited for together.

    Futures would not do. Their locks are taken in Python, those of all that are waited for again and again:
    an interrupt that comes there leaves them taken, and the threads that end the tasks wait for ever.

    Args:
        pool: The threads.

    Attributes:
        left: Tasks whose end nobody has waited for.
    """

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._ended: SimpleQueue[BaseException | None] = SimpleQueue()
        self.left = 0

    def start(self, task: Callable[[], object]) -> None:
        """Have a task done, if nobody shuts down the pool before."""
        self._pool.submit(partial(_run, task, self._ended))
        self.left += 1

    def wait(self, show: Callable[[], None]) -> None:
        """Wait until all have ended; ``show`` is called after each, and about ten times a second.

        Raises: What the first that fails has raised.
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
                    del error  # it would hold itself by its traceback, and all that the task has
            show()


def _run(task: Callable[[], object], ended: SimpleQueue[BaseException | None]) -> None:
    try:
        task()
    except BaseException as error:
        ended.put(error)
    else:
        ended.put(None)
