"""A line on the terminal that shows how far a long task of the library is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
