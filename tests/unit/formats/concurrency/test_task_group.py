"""Tests of waiting for tasks: the first error ends it, and an interrupt leaves no lock taken."""

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from types import FrameType

import pytest

from stoker.formats.concurrency import task_group as module
from stoker.formats.concurrency.task_group import TaskGroup


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


def test_wait_ends_with_the_last_task(pool: ThreadPoolExecutor) -> None:
    done: list[int] = []
    shown: list[int] = []
    tasks = TaskGroup(pool)
    for number in range(20):
        tasks.start(partial(done.append, number))
    assert tasks.left == 20
    tasks.wait(lambda: shown.append(tasks.left))
    assert sorted(done) == list(range(20))
    assert list(dict.fromkeys(shown))[-1] == 0
    TaskGroup(pool).wait(lambda: pytest.fail("there are none"))


def test_the_first_error_is_raised_while_other_tasks_run(pool: ThreadPoolExecutor) -> None:
    go = threading.Event()
    raised = threading.Event()

    def fail() -> None:
        raised.set()
        raise OSError("full")

    tasks = TaskGroup(pool)
    tasks.start(partial(go.wait, 60))
    tasks.start(fail)
    with pytest.raises(OSError, match="full"):
        tasks.wait(lambda: None)
    assert raised.is_set()
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
    # An interrupt during the wait itself is noticed at the next tick, and there are hundreds of interrupts.
    monkeypatch.setattr(module, "_TICK", 0.01)
    steps = 1
    while _interrupted_at(steps):
        steps += 1
    assert steps > 5


class DaemonPool(ThreadPoolExecutor):
    """Runs each task on a daemon thread, which the end of Python does not wait for; reports its end."""

    def __init__(self, ended: SimpleQueue[None]) -> None:
        super().__init__(1)
        self._task_ended = ended

    def submit(self, task: Callable[[], None]) -> Future[None]:  # all that is used
        future: Future[None] = Future()

        def run() -> None:
            future.set_result(task())
            self._task_ended.put(None)

        threading.Thread(target=run, daemon=True).start()
        return future


def _interrupted_at(step: int) -> bool:
    """Wait for a task, interrupted at this instruction of Python; return whether there were so many."""
    go: SimpleQueue[None] = SimpleQueue()  # no lock of its own that an interrupt could leave taken
    ended: SimpleQueue[None] = SimpleQueue()
    left = step

    def trace(frame: FrameType, event: str, _: object) -> object:
        nonlocal left
        frame.f_trace_opcodes = True
        left -= event == "opcode"
        if left == 0:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    tasks = TaskGroup(DaemonPool(ended))
    tasks.start(partial(go.get, timeout=60))
    gc.disable()  # an interrupt in a callback of the collector is lost
    try:
        sys._getframe().f_trace_opcodes = True  # CPython 3.12 asks here whether opcodes are traced at all
        sys.settrace(trace)
        tasks.wait(partial(go.put, None))
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
        gc.enable()
        go.put(None)
        ended.get(timeout=60)  # the thread is done with its task
    return False
