"""Messages to Python's ``logging`` about what happens while a loader or a conversion runs.

The loggers are children of ``stoker``, named after the part that speaks: ``stoker.storage``,
``stoker.cache``, ``stoker.samples``, ``stoker.workers``. An event that repeats, such as a request that is
tried again, is logged once in ten seconds, with the number of messages left out in between.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from stoker.urls import without_credentials

_SECONDS = 10.0


class EventLog:
    """A logger for events that may repeat quickly.

    It has no lock, because a forked process could inherit one that is locked. At worst, two threads log one
    event twice.
    """

    def __init__(self, name: str, clock: Callable[[], float] = monotonic) -> None:
        self._logger = logging.getLogger(f"stoker.{name}")
        self._clock = clock
        self._last: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def warning(self, event: str, message: str) -> None:
        """Log a message at level WARNING, unless this kind of event was logged in the last ten seconds."""
        # Credentials in URLs are removed.
        self._log(logging.WARNING, event, message)

    def info(self, event: str, message: str) -> None:
        self._log(logging.INFO, event, message)

    def _log(self, level: int, event: str, message: str) -> None:
        if not self._logger.isEnabledFor(level):
            return
        now = self._clock()
        if event in self._last and now - self._last[event] < _SECONDS:
            self._left_out[event] = self._left_out.get(event, 0) + 1
            return
        self._last[event] = now
        left_out = self._left_out.pop(event, 0)
        more = f" ({left_out} more since the last message)" if left_out else ""
        self._logger.log(level, "%s%s", without_credentials(message), more)


_BAR = 24  # characters


@contextmanager
def progress_line(title: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function of (done, total) that shows a bar on standard error, if that is a terminal."""
    stream = sys.stderr
    if stream is None or not stream.isatty():
        yield lambda done, total: None
        return

    def show(done: int, total: int) -> None:
        filled = _BAR * done // max(total, 1)
        bar = f"[{'#' * filled}{' ' * (_BAR - filled)}]"
        stream.write(f"\r{title} {bar} {done:,} of {total:,} {unit}\x1b[K")
        stream.flush()

    try:
        show(0, 0)
        yield show
    finally:
        stream.write("\r\x1b[K")
        stream.flush()
