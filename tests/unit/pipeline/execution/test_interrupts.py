"""The event and the queue operation that interrupts and finalisers cannot break."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

from helpers.processes import at_point, ends, interrupted_everywhere

from stoker.pipeline.execution.threads import OneShotEvent, move_next


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
