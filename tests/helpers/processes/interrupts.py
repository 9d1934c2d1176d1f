"""Runs of an action with an event, such as Ctrl-C, at each point in turn where Python handles signals."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any


def at_point(number: int, what: Callable[[], None], action: Callable[[], Any]) -> bool:
    """Run ``action``, and ``what`` at the n-th point where Python handles signals; return whether it exists.

    Points inside the start of a thread do not count: there Ctrl-C can leave a lock of Python's own taken.
    """
    left = number

    def look(frame: FrameType, event: str, argument: object) -> None:
        nonlocal left
        left -= event in ("call", "c_return") and not _starts_thread(frame)
        if not left:
            left -= 1
            what()

    sys.setprofile(look)
    try:
        action()
    finally:
        sys.setprofile(None)
    return left < 0


def _starts_thread(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code is not threading.Thread.start.__code__:
        frame = frame.f_back
    return frame is not None


def interrupted_everywhere(make: Callable[[], tuple[Callable[[], Any], Callable[[], None]]]) -> None:
    """Run an action with Ctrl-C at each point in turn, and then its check in a thread; ``make`` makes both.

    The error is kept alive during the check, as in an interactive session.
    """

    def interrupt() -> None:
        raise KeyboardInterrupt

    for number in itertools.count(1):
        action, check = make()
        try:
            if not at_point(number, interrupt, action):
                assert number > 1
                return
        except KeyboardInterrupt as error:
            kept = error
            ends(check)
            del kept
        else:
            ends(check)


def ends(check: Callable[[], Any]) -> None:
    """Run ``check`` in a thread; fail if it does not end, and raise what it raises."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            check()
        except BaseException as error:  # the test raises it, whatever it is
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "it waits for a lock that stays taken"
    if errors:
        raise errors[0]
