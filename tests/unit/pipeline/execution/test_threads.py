"""Worker threads, which end before the interpreter does."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

import pytest
from helpers.processes import at_point, ends, interrupted_everywhere

from stoker.errors import EngineError
from stoker.pipeline.execution import threads
from stoker.pipeline.execution.threads import OneShotEvent, WorkerThread, move_next


def test_a_thread_that_cannot_be_started_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    worker = WorkerThread(lambda: None, lambda: None, "test")
    monkeypatch.setattr(threading.Thread, "start", fails)
    with pytest.raises(EngineError, match="allows this process no more threads"):
        worker.start()
    threads.end_workers()
    assert not worker.is_stopping
    worker.end()


def test_the_end_of_the_interpreter_ends_workers_that_are_started_meanwhile() -> None:
    """A prefetcher's worker starts others when it begins the next pass over a remote dataset."""
    stopped, later_stopped = threading.Event(), threading.Event()

    def waits() -> None:
        later_stopped.wait()

    later = WorkerThread(waits, later_stopped.set, "later")

    def run() -> None:
        stopped.wait()
        later.start()

    WorkerThread(run, stopped.set, "first").start()
    threads.end_workers()
    assert later.is_stopping
    assert "stoker-later" not in [thread.name for thread in threading.enumerate()]


def test_interrupts_at_the_end_of_the_interpreter_are_delayed_for_some_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise threads could be stopped inside C++.

    The patches stand for Ctrl-C and for seconds that pass.
    """
    stopped = threading.Event()
    end, interrupts = WorkerThread.end, 3

    def run() -> None:
        stopped.wait()

    def interrupted(worker: WorkerThread, seconds: float | None = None) -> None:
        nonlocal interrupts
        if interrupts:
            interrupts -= 1
            raise KeyboardInterrupt
        end(worker, seconds)

    worker = WorkerThread(run, stopped.set, "test")
    worker.start()
    monkeypatch.setattr(WorkerThread, "end", interrupted)
    monkeypatch.setattr(threads, "_PATIENCE", 0)
    with pytest.raises(KeyboardInterrupt):
        threads.end_workers()
    assert not worker.is_stopping
    monkeypatch.setattr(threads, "_PATIENCE", 600)
    threads.end_workers()
    assert worker.is_stopping
    assert "stoker-test" not in [thread.name for thread in threading.enumerate()]


def test_an_event_can_be_set_inside_its_wait() -> None:
    """A finaliser does so: the garbage collector runs in any thread that makes an object."""
    for number in itertools.count(1):
        event = OneShotEvent()
        reached: list[bool] = []

        def waits(number: int = number, event: OneShotEvent = event, reached: list[bool] = reached) -> None:
            reached.append(at_point(number, event.set, lambda: event.wait(0.001)))

        ends(waits)
        if not reached[0]:
            break
    assert number > 3


def test_an_event_works_after_an_interrupt() -> None:
    def make() -> tuple[Callable[[], None], Callable[[], None]]:
        event = OneShotEvent()

        def again() -> None:
            event.set()
            assert event.wait()
            assert event.wait()

        return event.set, again

    interrupted_everywhere(make)


def test_an_event_wakes_all_threads_that_wait() -> None:
    event = OneShotEvent()
    assert not event.wait(0)
    threads = [threading.Thread(target=event.wait, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    event.set()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert event.is_set()


def test_an_interrupt_loses_no_item_of_a_queue() -> None:
    def make() -> tuple[Callable[[], None], Callable[[], None]]:
        source: SimpleQueue[tuple[int, ...]] = SimpleQueue()
        target: deque[int] = deque()
        for numbers in ((0,), (1, 2, 3), (4,)):
            source.put(numbers)

        def check() -> None:
            while len(target) < 5:
                move_next(source, target)
            assert list(target) == [0, 1, 2, 3, 4]

        return lambda: move_next(source, target), check

    interrupted_everywhere(make)
