"""Tests of waiting for tasks: the first error ends it, and an interrupt leaves no lock taken."""

from __future__ import annotations

import gc
import io
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from helpers.processes import interrupted_everywhere

from stoker.errors import ConfigError, EngineError
from stoker.formats import threads as module
from stoker.formats.threads import TaskGroup, available_cores, bounded_map, check_threads, thread_map


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(3) as threads:
        yield threads


def test_wait_ends_with_the_last_task(pool: ThreadPoolExecutor) -> None:
    done, shown, tasks = list[int](), list[int](), TaskGroup(pool)
    for number in range(20):
        tasks.start(partial(done.append, number))
    assert tasks.left == 20
    tasks.wait(lambda: shown.append(tasks.left))
    assert sorted(done) == list(range(20))
    assert shown[-1] == 0
    TaskGroup(pool).wait(lambda: pytest.fail("there are none"))


def test_the_first_error_is_raised_while_other_tasks_run(pool: ThreadPoolExecutor) -> None:
    go = threading.Event()

    def fail() -> None:
        raise OSError("full")

    tasks = TaskGroup(pool)
    tasks.start(partial(go.wait, 60))
    tasks.start(fail)
    with pytest.raises(OSError, match="full"):
        tasks.wait(lambda: None)
    assert not go.is_set()
    go.set()


def test_an_error_does_not_keep_the_data_of_its_task(pool: ThreadPoolExecutor) -> None:
    class Big:
        def fail(self) -> None:
            raise OSError("full")

    big = Big()
    gone = weakref.ref(big)
    tasks = TaskGroup(pool)
    tasks.start(big.fail)
    gc.disable()
    try:
        with pytest.raises(OSError, match="full"):
            tasks.wait(lambda: None)
        pool.shutdown()
        del big, tasks
        assert gone() is None
    finally:
        gc.enable()


def test_an_interrupt_anywhere_in_wait_leaves_no_thread_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    # An interrupt during the wait itself is noticed at the next tick, and there are many interrupts.
    monkeypatch.setattr(module, "_TICK", 0.01)

    def make() -> tuple[Callable[[], None], Callable[[], None]]:
        go: SimpleQueue[None] = SimpleQueue()  # no lock of its own that an interrupt could leave taken
        threads: list[threading.Thread] = []

        def submit(task: Callable[[], None]) -> None:
            threads.append(threading.Thread(target=task, daemon=True))
            threads[0].start()

        def end() -> None:
            go.put(None)
            threads[0].join()

        pool: Any = SimpleNamespace(submit=submit)
        tasks = TaskGroup(pool)
        tasks.start(partial(go.get, timeout=60))
        return partial(tasks.wait, partial(go.put, None)), end

    interrupted_everywhere(make)


@pytest.fixture
def control_group(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The files of the control group by name, on a machine of six cores."""
    files: dict[str, str] = {}

    def open_file(path: str) -> io.StringIO:
        if (name := path.removeprefix("/sys/fs/cgroup/")) in files:
            return io.StringIO(files[name])
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)))
    monkeypatch.setattr(module, "open", open_file, raising=False)
    return files


@pytest.mark.parametrize("version_1", [None, "cpu", "cpu,cpuacct"])
@pytest.mark.parametrize(
    ("quota", "period", "expected"),
    [("max", "100000", 6), ("250000", "100000", 2), ("50000", "100000", 1), ("9900000", "100000", 6)],
)
def test_the_quota_of_the_control_group_limits_the_cores(
    control_group: dict[str, str], version_1: str | None, quota: str, period: str, expected: int
) -> None:
    if version_1:
        control_group[f"{version_1}/cpu.cfs_quota_us"] = "-1\n" if quota == "max" else f"{quota}\n"
        control_group[f"{version_1}/cpu.cfs_period_us"] = f"{period}\n"
    else:
        control_group["cpu.max"] = f"{quota} {period}\n"
    assert available_cores() == check_threads(None) == expected


@pytest.mark.parametrize(
    ("membership", "files"),
    [
        ("0::/slice/job", {"slice/job/cpu.max": "150000 100000"}),
        ("0::/slice/job", {"slice/job/cpu.max": "max 100000", "slice/cpu.max": "100000 100000"}),
        ("0::/docker/ab", {"cpu.max": "150000 100000"}),  # a container sees its group as the root
        (
            "1:name=systemd:/\n3:cpu,cpuacct:/slurm/job\n0::/",
            {
                "cpu,cpuacct/slurm/cpu.cfs_quota_us": "100000",
                "cpu,cpuacct/slurm/cpu.cfs_period_us": "100000",
                "cpu,cpuacct/slurm/job/cpu.cfs_quota_us": "-1",
                "cpu,cpuacct/slurm/job/cpu.cfs_period_us": "100000",
            },
        ),
        (
            "4:cpu:/job",
            {"cpu/job/cpu.cfs_quota_us": "100000", "cpu/job/cpu.cfs_period_us": "100000"},
        ),
    ],
)
def test_the_quotas_of_nested_control_groups_limit_the_cores(
    control_group: dict[str, str], membership: str, files: dict[str, str]
) -> None:
    control_group.update({"/proc/self/cgroup": membership, **files})
    assert available_cores() == 1


def test_the_cores_are_those_of_the_affinity_mask_or_else_of_the_system(
    control_group: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert available_cores() == 6
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 10)
    assert available_cores() == 10
    assert (check_threads(np.int64(3)), check_threads(4096), check_threads(None, 5)) == (3, 4096, 5)


@pytest.mark.parametrize("number", ["2", 2.0, 0, -1, 4097, True], ids=repr)
def test_a_number_of_threads_that_is_no_integer_from_1_to_4096_is_refused(number: Any) -> None:
    with pytest.raises(ConfigError, match=r"num_threads must be (an integer|at least 1|at most 4096)"):
        check_threads(number)


def test_results_come_in_the_order_of_the_tasks(pool: ThreadPoolExecutor) -> None:
    later_tasks_are_done = threading.Event()

    def first() -> int:
        assert later_tasks_are_done.wait(60)
        return 0

    def last() -> int:
        later_tasks_are_done.set()
        return 20

    tasks = [(0, first), (1, lambda: 10), (2, last)]
    assert list(bounded_map(pool, tasks, 5)) == [(0, 0), (1, 10), (2, 20)]
    assert not list(bounded_map(pool, iter(()), 5))


@pytest.mark.parametrize("ahead", [0, 1, 4])
def test_no_more_tasks_are_taken_than_may_be_in_flight(pool: ThreadPoolExecutor, ahead: int) -> None:
    taken: list[int] = []

    def tasks() -> Iterator[tuple[int, Callable[[], int]]]:
        for i in range(10):
            taken.append(i)
            yield i, lambda: 0

    for label, _ in bounded_map(pool, tasks(), ahead):
        assert len(taken) == min(10, label + ahead + 1)


def test_an_error_cancels_the_tasks_that_have_not_started(pool: ThreadPoolExecutor) -> None:
    began: list[int] = []
    go = threading.Event()

    def task(number: int) -> None:
        began.append(number)
        if number == 0:
            raise ValueError("broken")
        go.wait(60)

    tasks = ((i, partial(task, i)) for i in range(50))
    with pytest.raises(ValueError, match="broken"):
        list(bounded_map(pool, tasks, 20))
    go.set()
    pool.shutdown(wait=True)
    assert len(began) < 10


def test_a_limit_of_threads_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
    with pytest.raises(EngineError, match=r"no more threads[^$]*ulimit -u"):
        list(thread_map(str, [1], "test", 1, 1))
    with pytest.raises(EngineError, match=r"no more threads"):
        TaskGroup(ThreadPoolExecutor(1)).start(int)


def test_other_errors_of_a_pool_are_raised_as_they_are() -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        TaskGroup(pool).start(int)
