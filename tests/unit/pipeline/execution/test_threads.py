"""Worker threads, which end before the interpreter does."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

import pytest

from stoker.pipeline.execution import threads
from stoker.pipeline.execution.threads import Worker

if TYPE_CHECKING:
    from types import FrameType


def test_an_interrupted_end_waits_again() -> None:
    """Before 3.13, Python takes a thread for dead once an interrupt came while it was joined."""
    allowed, interrupted = threading.Event(), threading.Event()
    log: list[str] = []

    def run() -> None:
        allowed.wait()
        log.append("ended")

    def interrupt(number: int, frame: FrameType | None) -> None:
        while frame is not None and frame.f_code.co_name != "wait":
            frame = frame.f_back
        if frame is not None and not interrupted.is_set():
            interrupted.set()
            raise KeyboardInterrupt

    def signals(main: int) -> None:
        while not interrupted.wait(0.01):
            signal.pthread_kill(main, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    sender = threading.Thread(target=signals, args=(threading.get_ident(),))
    worker = Worker(run, lambda: None, "test")
    worker.start()
    try:
        sender.start()
        with pytest.raises(KeyboardInterrupt):
            worker.end()
        sender.join()
        threading.Timer(0.05, allowed.set).start()
        worker.end()
        assert log == ["ended"]
    finally:
        interrupted.set()
        allowed.set()
        signal.signal(signal.SIGUSR1, before)


def test_a_thread_that_cannot_be_started_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    worker = Worker(lambda: None, lambda: None, "test")
    monkeypatch.setattr(threading.Thread, "start", fails)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        worker.start()
    assert worker not in threads._running.values()
    worker.end()


def test_the_end_of_the_interpreter_ends_workers_that_are_started_meanwhile() -> None:
    """A prefetcher's worker starts others when it begins the next pass over a remote dataset."""
    stopped, later_stopped = threading.Event(), threading.Event()

    def waits() -> None:
        later_stopped.wait()

    later = Worker(waits, later_stopped.set, "later")

    def run() -> None:
        stopped.wait()
        later.start()

    Worker(run, stopped.set, "first").start()
    threads._end_all()
    assert later.is_stopping
    assert later not in threads._running.values()


def test_interrupts_at_the_end_of_the_interpreter_are_put_off_for_some_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise threads could be stopped inside C++."""
    told = threading.Event()
    end, left = Worker.end, 3

    def run() -> None:
        told.wait()

    def interrupted(worker: Worker, seconds: float | None = None) -> None:
        nonlocal left
        if left:
            left -= 1
            raise KeyboardInterrupt
        end(worker, seconds)

    worker = Worker(run, told.set, "test")
    worker.start()
    monkeypatch.setattr(Worker, "end", interrupted)
    monkeypatch.setattr(threads, "_PATIENCE", 0)
    with pytest.raises(KeyboardInterrupt):
        threads._end_all()
    assert not worker.is_stopping
    monkeypatch.setattr(threads, "_PATIENCE", 600)
    threads._end_all()
    assert worker.is_stopping
    assert worker not in threads._running.values()
