"""What the command line prints: progress on a terminal, plain lines elsewhere, tables."""

from __future__ import annotations

import json
import re
import sys
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, TextIO

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

from stoker.errors import StokerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from stoker.formats.conversion.execution import Summary

__all__ = [
    "count",
    "human_bytes",
    "is_terminal",
    "out",
    "plain",
    "print_error",
    "print_json",
    "print_rows",
    "print_skipped",
    "print_summary",
    "progress",
    "table",
]

_SECONDS_BETWEEN_LINES = 10.0
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a standard stream is a terminal; of a process that has closed it Python makes None."""
    return stream is not None and stream.isatty()


# Not a terminal is a file or a log, where nothing forces a table into 80 columns. File names may look
# like markup.
_WIDTH = None if is_terminal(sys.stdout) else 120
out = Console(highlight=False, soft_wrap=True, markup=False, width=_WIDTH)


def plain(text: str) -> str:
    """Text with escapes for what a terminal would obey: names of files and classes may have anything."""
    return _CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def print_error(error: Exception) -> None:
    """Say on standard error what went wrong."""
    said = str(error)
    if isinstance(error, OSError) and not isinstance(error, StokerError) and error.strerror:
        said = error.strerror + (f" (path {error.filename!r})" if error.filename else "")
    _errors().print(Text("error: ", style="bold red").append(plain(said), style="not bold default"))


def _errors() -> Console:
    return Console(stderr=True, highlight=False, soft_wrap=True, markup=False)


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
def progress(title: str, unit: str, *, resumes: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Yield a function of (done, total) that shows how far a long piece of work is.

    On a terminal a bar with rate and remaining time, on standard error; elsewhere a line every ten seconds.

    Args:
        title: What is done.
        unit: What is counted.
        resumes: Whether the work goes on where it was stopped; who stops it by Ctrl-C is told so.
    """
    try:
        with _shown(title, unit) as show:
            yield show
    except KeyboardInterrupt:
        _errors().print("stopped" + ("; the same command goes on from here" if resumes else ""))
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
    """How fast work is; what was done before it began, by a run that was stopped, does not count."""

    def __init__(self) -> None:
        self._first: tuple[int, float] | None = None

    def per_second(self, done: int, total: int) -> float:
        """Units a second up to now, of which ``done`` of ``total`` are done; 0 while nothing is known."""
        now = monotonic()
        if self._first is None:
            self._first = (done, now) if total else None
            return 0.0
        before, began = self._first
        return (done - before) / (now - began) if now > began else 0.0


def _rate(per_second: float, unit: str) -> str:
    return f"{per_second:,.0f} {unit}/s" if per_second else ""


class _Lines:
    """Progress for logs: a line now and then."""

    def __init__(self, title: str, unit: str) -> None:
        self._title = title
        self._unit = unit
        self._pace = _Pace()
        self._said = monotonic()

    def __call__(self, done: int, total: int) -> None:
        pace = self._pace.per_second(done, total)
        now = monotonic()
        if now - self._said < _SECONDS_BETWEEN_LINES:
            return
        self._said = now
        parts = [f"{done:,} of {total:,} ({done / max(total, 1):.0%})"]
        if pace:
            parts += [_rate(pace, self._unit), f"{(total - done) / pace:,.0f} s left"]
        print(f"{self._title}: {', '.join(parts)}", file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """A value for programs, in ASCII whatever the terminal's encoding."""
    print(json.dumps(value, indent=1))


def print_rows(rows: list[tuple[str, Any]]) -> None:
    """Name and value, a line each."""
    made = Table(box=None, show_header=False, pad_edge=False)
    for name, value in rows:
        made.add_row(Text(plain(name), style="bold"), plain(str(value)))
    out.print(made)


def print_summary(summary: Summary, what: str) -> None:
    """Say what a conversion wrote and left out; ``what`` is one sample of it, "image"."""
    print_skipped(summary.skipped)
    size, seconds, rate = human_bytes(summary.bytes), summary.seconds, summary.images_per_second
    made = f"{count(summary.written, what)}, {size} in {count(summary.shards, 'shard')}"
    if summary.already:
        out.print(f"already converted by the same command: {made}")
    else:
        out.print(f"{made}, {seconds:.1f} s, {rate:,.0f} {what}s/s")
    for folder in summary.datasets.values():
        out.print(str(folder), style="bold")


def print_skipped(skipped: Mapping[str, int]) -> None:
    """Say how many files or records were left out, by reason."""
    for reason, number in sorted(skipped.items()):
        out.print(f"skipped {number:,}: {reason}", style="yellow")
