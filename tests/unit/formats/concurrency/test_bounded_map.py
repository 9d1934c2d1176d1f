"""Tests of ordered results with a bounded number of tasks in flight."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from stoker.formats.concurrency.bounded_map import bounded_map


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(3) as threads:
        yield threads


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
