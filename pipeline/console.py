"""What the command line prints: progress on a terminal, plain lines elsewhere, tables."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
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
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from stoker.formats.execution import Summary

__all__ = [
    "count",
    "human_bytes",
    "out",
    "print_error",
    "print_rows",
    "print_skipped",
    "print_summary",
    "progress",
    "table",
]

_SECONDS_BETWEEN_LINES = 10.0

# Not a terminal is a file or a log, where nothing forces a table into 80 columns. File names may look
# like markup.
_WIDTH = None if sys.stdout.isatty() else 120
out = Console(highlight=False, soft_wrap=True, markup=False, width=_WIDTH)


def print_error(error: Exception) -> None:
    """Say on standard error what went wrong."""
    console = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)
    console.print(Text("error: ", style="bold red").append(str(error), style="not bold default"))


def table(*titles: str) -> Table:
    """An empty table; the first column is text, the others numbers."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False)
    for number, title in enumerate(titles):
        made.add_column(title, justify="left" if number == 0 else "right", overflow="fold")
    return made


def count(number: int, what: str) -> str:
    """1 and "shard" as "1 shard", 1200 as "1,200 shards"."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def human_bytes(size: float) -> str:
    """1234567 as "1.2 MB"; powers of ten, as disks are sold."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


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
        made.add_row(Text(name, style="bold"), str(value))
    out.print(made)


def print_summary(summary: Summary, what: str) -> None:
    """Say what a conversion wrote and left out; ``what`` is one sample of it, "image"."""
    print_skipped(summary.skipped)
    size, seconds, rate = human_bytes(summary.bytes), summary.seconds, summary.images_per_second
    made = f"{count(summary.written, what)}, {size} in {count(summary.shards, 'shard')}"
    out.print(f"{made}, {seconds:.1f} s, {rate:,.0f} {what}s/s")
    for folder in summary.datasets.values():
        out.print(str(folder), style="bold")


def print_skipped(skipped: Mapping[str, int]) -> None:
    """Say how many files or records were left out, by reason."""
    for reason, number in sorted(skipped.items()):
        out.print(f"skipped {number:,}: {reason}", style="yellow")
