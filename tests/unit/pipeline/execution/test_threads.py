"""Worker threads, which end before the interpreter does."""

from __future__ import annotations

import threading

import pytest

from stoker.pipeline.execution import threads
from stoker.pipeline.execution.threads import WorkerThread


def test_a_thread_that_cannot_be_started_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    worker = WorkerThread(lambda: None, lambda: None, "test")
    monkeypatch.setattr(threading.Thread, "start", fails)
    with pytest.raises(RuntimeError, match="can't start new thread"):
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
