"""Tests of ordered results with a bounded number of tasks in flight."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from stoker.formats.concurrency.bounded_map import bounded_map


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(3) as made:
        yield made


def later(seconds: float, value: int) -> int:
    time.sleep(seconds)
    return value


def test_results_come_in_the_order_of_the_tasks(pool: ThreadPoolExecutor) -> None:
    tasks = ((i, partial(later, 0.001 * (i % 4), 10 * i)) for i in range(20))
    assert list(bounded_map(pool, tasks, 5)) == [(i, 10 * i) for i in range(20)]
    assert not list(bounded_map(pool, iter(()), 5))


@pytest.mark.parametrize("ahead", [0, 1, 4])
def test_tasks_are_drawn_as_they_are_needed(pool: ThreadPoolExecutor, ahead: int) -> None:
    drawn: list[int] = []

    def tasks() -> Iterator[tuple[int, Callable[[], int]]]:
        for i in range(10):
            drawn.append(i)
            yield i, lambda: 0

    for label, _ in bounded_map(pool, tasks(), ahead):
        assert len(drawn) == min(10, label + ahead + 1)


def test_tasks_that_have_not_started_are_cancelled(pool: ThreadPoolExecutor) -> None:
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
