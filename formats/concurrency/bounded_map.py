"""Ordered results of tasks on threads, with a bounded number of tasks in flight."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

Item = TypeVar("Item")
Label = TypeVar("Label")
Result = TypeVar("Result")


def bounded_map(
    pool: ThreadPoolExecutor, tasks: Iterable[tuple[Label, Callable[[], Result]]], ahead: int
) -> Iterator[tuple[Label, Result]]:
    """Yield the label and the result of each task, in the order of the tasks.

    Tasks that have not started are cancelled as soon as the caller stops or a task raises.
    """
    window: deque[tuple[Label, Future[Result]]] = deque()
    try:
        for label, task in tasks:
            window.append((label, pool.submit(task)))
            if len(window) > ahead:
                first, future = window.popleft()
                yield first, future.result()
        while window:
            first, future = window.popleft()
            yield first, future.result()
    finally:
        for _, future in window:
            future.cancel()


def thread_map(
    function: Callable[[Item], Result], items: Iterable[Item], name: str, threads: int, ahead: int
) -> Iterator[tuple[Item, Result]]:
    """Yield each item with the result of a function, called on new threads; see :func:`bounded_map`."""
    with ThreadPoolExecutor(threads, thread_name_prefix=f"stoker-{name}") as pool:
        yield from bounded_map(pool, ((item, partial(function, item)) for item in items), ahead)
