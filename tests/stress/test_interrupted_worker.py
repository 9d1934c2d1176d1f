"""A worker thread whose end is interrupted by a signal."""

from __future__ import annotations

import signal
import threading
from types import FrameType

import pytest

from stoker.pipeline.execution.threads import WorkerThread


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
    worker = WorkerThread(run, lambda: None, "test")
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
