"""Work on the threads of a pool, a few pieces ahead of whoever takes the results."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future, ThreadPoolExecutor

    Label = TypeVar("Label")
    Result = TypeVar("Result")

__all__ = ["bounded_map"]


def bounded_map(
    pool: ThreadPoolExecutor, tasks: Iterable[tuple[Label, Callable[[], Result]]], ahead: int
) -> Iterator[tuple[Label, Result]]:
    """The label and the result of each task, in the order of the tasks.

    What is not begun is cancelled as soon as the caller takes no more, or a task raises.

    Args:
        pool: The threads.
        tasks: What is to be done; drawn from no sooner than needed.
        ahead: Tasks that are handed to the pool before the result of the first is waited for.
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
