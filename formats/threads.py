"""Threads: how many to use, and ordered or grouped tasks on them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import PurePosixPath
from queue import Empty, SimpleQueue
from typing import SupportsIndex, TypeVar

from stoker.arguments import whole_number
from stoker.errors import EngineError, StokerError

Item = TypeVar("Item")
Label = TypeVar("Label")
Result = TypeVar("Result")

_MOST = 4096
_GROUPS = "/sys/fs/cgroup"
_VERSION_1 = ("cpu", "cpu,cpuacct")  # folders of its groups
_TICK = 0.1  # seconds between two reports of progress, and until an interrupt is noticed


@contextmanager
def starting_threads() -> Iterator[None]:
    """Raise EngineError where the system allows the process no more threads."""
    try:
        yield
    except (BlockingIOError, RuntimeError) as error:
        if isinstance(error, StokerError) or not (
            isinstance(error, BlockingIOError) or "start new thread" in str(error)
        ):
            raise
        raise EngineError(
            "the system allows this process no more threads",
            hint="Use fewer threads (num_threads), or raise the limit of the user or the container "
            "(ulimit -u, pids.max).",
        ) from error


def bounded_map(
    pool: ThreadPoolExecutor, tasks: Iterable[tuple[Label, Callable[[], Result]]], ahead: int
) -> Iterator[tuple[Label, Result]]:
    """Yield the label and the result of each task, in the order of the tasks."""
    # Tasks that have not started are cancelled as soon as the caller stops or a task raises.
    window: deque[tuple[Label, Future[Result]]] = deque()
    try:
        for label, task in tasks:
            with starting_threads():
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


def available_cores() -> int:
    """Return the number of cores in the process's affinity mask, limited by its control group's quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = (quota // period for quota, period in map(_quota, _quota_files()) if quota > 0 and period > 0)
    return max(1, min([cores, *quotas]))


def _quota_files() -> Iterator[tuple[str, ...]]:
    """The files with the quotas of this process's control group, and of the groups around it."""
    lines = ["0::/", *(f":{names}:/" for names in _VERSION_1)]
    # A process of a slice or a job is in a group below the root; a container sees its group as the root.
    with suppress(OSError), open("/proc/self/cgroup") as file:  # noqa: PTH123 - a kernel file
        lines += file.read().splitlines()
    for line in lines:
        _, names, path = line.split(":", 2)
        version_1 = "cpu" in names.split(",")
        for root in (names, *_VERSION_1) if version_1 else ("", "unified") if not names else ():
            for group in (PurePosixPath(path), *PurePosixPath(path).parents):
                folder = str(PurePosixPath(_GROUPS, root, str(group).lstrip("/")))
                one = ("cfs_quota_us", "cfs_period_us") if version_1 else ("max",)
                yield tuple(f"{folder}/cpu.{name}" for name in one)


def _quota(files: tuple[str, ...]) -> tuple[int, int]:
    """Return a group's microseconds of CPU time in each period, and the period; 0, 0 without a limit."""
    words: list[str] = []
    try:
        for name in files:
            with open(name) as file:  # noqa: PTH123 - a kernel file, read as one line
                words += file.read().split()
        quota, period = (int(word) for word in words)
    except (OSError, ValueError):  # the quota of version 2 may be "max"
        return 0, 0
    return quota, period


def check_threads(num_threads: SupportsIndex | None, default: int | None = None) -> int:
    """Return a number of threads: ``num_threads``, or else ``default``, or else the available cores."""
    if num_threads is None:
        return available_cores() if default is None else default
    return whole_number("num_threads", num_threads, 1, _MOST)


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
        with starting_threads():
            self._pool.submit(partial(_run, task, self._ended))
        self.left += 1

    def wait(self, show: Callable[[], None]) -> None:
        """Wait until all tasks have ended; call ``show`` after each task and about ten times a second."""
        # Raises: The error of the first task that fails.
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
