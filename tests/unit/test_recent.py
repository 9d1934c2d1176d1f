"""What is made for the last two keys, for all threads, and in forked children."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from stoker.pipeline.recent import Recent


def test_the_last_two_are_kept() -> None:
    made: list[int] = []
    recent: Recent[int, int] = Recent()

    def make(key: int) -> int:
        made.append(key)
        return 10 * key

    assert [recent.get(key, make) for key in (1, 2, 1, 2, 3, 2, 3, 1)] == [10, 20, 10, 20, 30, 20, 30, 10]
    assert made == [1, 2, 3, 1]


@pytest.mark.filterwarnings("ignore:.*fork")  # which Python and JAX warn of
def test_a_forked_child_does_not_wait_for_a_thread_that_it_lacks() -> None:
    """A fork may come while the producer draws the next epoch."""
    recent: Recent[int, int] = Recent()
    begun, allowed = threading.Event(), threading.Event()

    def make(key: int) -> int:
        begun.set()
        allowed.wait()
        return key

    thread = threading.Thread(target=recent.get, args=(1, make), daemon=True)
    thread.start()
    begun.wait()
    if not (child := os.fork()):
        try:
            os._exit(recent.get(7, lambda key: key))
        finally:
            os._exit(1)
    end = time.monotonic() + 60
    while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < end:
        time.sleep(0.01)
    if not ended[0]:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    allowed.set()
    thread.join()
    assert ended[0], "the child hangs"
    assert os.waitstatus_to_exitcode(ended[1]) == 7
