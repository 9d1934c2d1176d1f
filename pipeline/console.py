"""What the command line prints: progress on a terminal, plain lines elsewhere, tables."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["human_bytes", "out", "print_error", "progress", "table"]

_SECONDS_BETWEEN_LINES = 10.0

out = Console(highlight=False, soft_wrap=True)


def print_error(error: Exception) -> None:
    """Say on standard error what went wrong."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"[bold red]error:[/] {escape(str(error))}")


def table(*titles: str) -> Table:
    """An empty table; the first column is text, the others numbers."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False)
    for number, title in enumerate(titles):
        made.add_column(title, justify="left" if number == 0 else "right", overflow="fold")
    return made


def human_bytes(count: float) -> str:
    """1234567 as "1.2 MB"; powers of ten, as disks are sold."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


@contextmanager
def progress(title: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function of (done, total) that shows how far a long piece of work is.

    On a terminal a bar with rate and remaining time, on standard error; elsewhere a line every ten seconds.
    """
    if sys.stderr.isatty():
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
            yield lambda done, total: bar.update(
                task, completed=done, total=total, rate=_rate(done, bar.tasks[task].elapsed, unit)
            )
    else:
        yield _Lines(title, unit)


def _rate(done: int, seconds: float | None, unit: str) -> str:
    return f"{done / seconds:,.0f} {unit}/s" if done and seconds else ""


class _Lines:
    """Progress for logs: a line now and then."""

    def __init__(self, title: str, unit: str) -> None:
        self._title = title
        self._unit = unit
        self._began = self._said = monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = monotonic()
        if now - self._said < _SECONDS_BETWEEN_LINES:
            return
        self._said = now
        seconds = now - self._began
        left = seconds * (total - done) / done if done else float("inf")
        rate = _rate(done, seconds, self._unit)
        print(
            f"{self._title}: {done:,} of {total:,} ({done / max(total, 1):.0%}), {rate}, {left:,.0f} s left",
            file=sys.stderr,
            flush=True,
        )


def print_rows(rows: list[tuple[str, Any]]) -> None:
    """Name and value, a line each."""
    made = Table(box=None, show_header=False, pad_edge=False)
    for name, value in rows:
        made.add_row(f"[bold]{escape(name)}[/]", escape(str(value)))
    out.print(made)
