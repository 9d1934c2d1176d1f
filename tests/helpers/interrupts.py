"""Something that happens at every place where Python looks for signals, one run for each."""

from __future__ import annotations

import itertools
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


def at_place(number: int, what: Callable[[], None], action: Callable[[], Any]) -> bool:
    """Run ``action``, and ``what`` at the n-th place where Python looks for signals; whether there is one.

    But not where a thread is started: Ctrl-C may leave that waiting for a lock of Python's own for ever.
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
    """Run the first that ``make`` makes with Ctrl-C at each place in turn, then the second in a thread.

    The error is kept until then, as an interactive session does.
    """

    def interrupt() -> None:
        raise KeyboardInterrupt

    for number in itertools.count(1):
        action, check = make()
        try:
            if not at_place(number, interrupt, action):
                assert number > 1
                return
        except KeyboardInterrupt as error:
            kept = error
            ends(check)
            del kept
        else:
            ends(check)


def ends(check: Callable[[], Any]) -> None:
    """Run ``check`` in a thread, and see that it ends, and how."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            check()
        except BaseException as error:  # whatever it is, the test must hear of it
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "it waits for a lock that nobody gives back"
    if errors:
        raise errors[0]
