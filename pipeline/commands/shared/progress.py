"""Progress of long tasks: a bar on a terminal, lines in a log."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from .console import error_console, is_terminal

_SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def progress(title: str, unit: str, *, resumes: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Yield a function of (done, total) that shows the progress of a long task on standard error.

    A terminal gets a bar with the rate and the remaining time, a file or log a line every ten seconds.

    Args:
        title: Name of the task, such as "converting".
        unit: Noun of the units that ``done`` and ``total`` count, in the plural.
        resumes: Whether the same command continues a stopped task. A message after Ctrl-C then says so.
    """
    try:
        with _shown(title, unit) as show:
            yield show
    except KeyboardInterrupt:
        error_console().print("stopped" + ("; the same command continues from here" if resumes else ""))
        raise


@contextmanager
def _shown(title: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    if is_terminal(sys.stderr):
        with Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        ) as bar:
            task = bar.add_task(title, total=None, rate="")
            pace = _Pace()

            def show(done: int, total: int) -> None:
                rate = _rate(pace.per_second(done, total), unit)
                bar.update(task, completed=done, total=total or None, rate=rate)

            yield show
    else:
        yield _Lines(title, unit)


class _Pace:
    """The rate of this run's work; units that an earlier, stopped run did are not counted."""

    def __init__(self) -> None:
        self._first: tuple[int, float] | None = None

    def per_second(self, done: int, total: int) -> float:
        """Return units per second since the first call with a total; 0 until then."""
        now = monotonic()
        if self._first is None:
            self._first = (done, now) if total else None
            return 0.0
        before, began = self._first
        return (done - before) / (now - began) if now > began else 0.0


def _rate(per_second: float, unit: str) -> str:
    return f"{per_second:,.0f} {unit}/s" if per_second else ""


class _Lines:
    """Progress in a log: a line every ten seconds."""

    def __init__(self, title: str, unit: str) -> None:
        self._title = title
        self._unit = unit
        self._pace = _Pace()
        self._printed = monotonic()

    def __call__(self, done: int, total: int) -> None:
        pace = self._pace.per_second(done, total)
        now = monotonic()
        if now - self._printed < _SECONDS_BETWEEN_LINES:
            return
        self._printed = now
        parts = [f"{done:,} of {total:,} ({done / max(total, 1):.0%})"]
        if pace:
            parts += [_rate(pace, self._unit), f"{(total - done) / pace:,.0f} s left"]
        print(f"{self._title}: {', '.join(parts)}", file=sys.stderr, flush=True)
