"""Interrupts and forks: what a loader promises, and the primitives that keep the promise.

What a loader promises when Ctrl-C (KeyboardInterrupt) arrives:

- A loop over a loader is interrupted at once, and the worker thread ends after the batch that it is making.
- The pass can go on. ``next()`` returns the batch that follows; at most the batch that was being handed
  over is lost, and ``state_dict()`` counts it as received.
- A pass that was interrupted before its first batch is the pass that the next ``iter()`` begins. After an
  error of the loader the next ``iter()`` goes on where the pass stood.
- The next ``close()`` completes an interrupted one, and so does dropping the loader.
- Dropping a loader ends its threads and closes its files. Only the folder of a cache remains: a loader makes
  no processes, no shared memory and no temporary files.
- Every worker thread ends before the interpreter does. Meanwhile further interrupts are put off for five
  seconds. Threads that wait for a storage are left behind after two seconds.

What a loader promises after ``os.fork()``:

- The parent's loader works as before.
- In the child, ``iter()`` of the parent's loader and ``next()`` of its pass raise LoaderClosedError.
  ``close()`` and dropping the loader return at once and free nothing of the parent's.
- The child can make new loaders and read datasets that the parent has opened.

Threads exchange batches through ``queue.SimpleQueue``, whose operations are single calls into C: a signal or
the garbage collector comes before or after one, never in between. :mod:`stoker.processes` knows which process
owns an object, :mod:`.threads` ends threads, and this module has what the standard library lacks.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Sequence
from itertools import chain
from queue import Empty, SimpleQueue
from typing import TypeVar

from stoker.errors import LoaderClosedError
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
        """Whether the event was set."""
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
