"""Console output of the commands: tables, rows, errors and summaries."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
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
    from stoker.formats.conversion.execution import Summary

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a standard stream is a terminal. Python sets a closed standard stream to None."""
    return stream is not None and stream.isatty()


# A file or a log is not limited to 80 columns. Names of files may look like Rich's markup.
_WIDTH = None if is_terminal(sys.stdout) else 120
out = Console(highlight=False, soft_wrap=True, markup=False, width=_WIDTH)


def plain(text: str) -> str:
    """Return text with control characters escaped: a name could otherwise send commands to the terminal."""
    return _CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def print_error(error: Exception) -> None:
    """Print an error on standard error."""
    message = str(error)
    if isinstance(error, OSError) and not isinstance(error, StokerError) and error.strerror:
        message = error.strerror + (f" (path {error.filename!r})" if error.filename else "")
    line = Text("error: ", style="bold red").append(plain(message), style="not bold default")
    error_console().print(line)


def error_console() -> Console:
    """Return a console on the present standard error, because tests and users redirect it."""
    return Console(stderr=True, highlight=False, soft_wrap=True, markup=False)


def table(*titles: str) -> Table:
    """Return an empty table whose first column is text and whose others are numbers."""
    empty = Table(box=SIMPLE_HEAD, pad_edge=False)
    for number, title in enumerate(titles):
        empty.add_column(title, justify="left" if number == 0 else "right", overflow="fold")
    return empty


def count(number: int, what: str) -> str:
    """Return a number with its noun: "1 shard", "1,200 shards"."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def human_bytes(size: float) -> str:
    """Return a size in words: 1234567 is "1.2 MB". Units are powers of ten, as of disks."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def print_json(value: Any) -> None:
    """Print a value as JSON, in ASCII whatever the encoding of the terminal."""
    print(json.dumps(value, indent=1))


def write_json(document: Any, file: Path | None) -> None:
    """Write a report to a file as JSON, if the user has named one."""
    if file is not None:
        file.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n")


def print_rows(rows: list[tuple[str, Any]]) -> None:
    """Print a line for each name and value."""
    grid = Table(box=None, show_header=False, pad_edge=False)
    for name, value in rows:
        grid.add_row(Text(plain(name), style="bold"), plain(str(value)))
    out.print(grid)


def print_summary(summary: Summary, what: str) -> None:
    """Print what a conversion wrote and skipped; ``what`` is the noun of a sample, such as "image"."""
    print_skipped(summary.skipped)
    if summary.skipped:
        out.print("skipped.jsonl in the dataset names each of them", style="yellow")
    size, seconds, rate = human_bytes(summary.bytes), summary.seconds, summary.images_per_second
    written = f"{count(summary.written, what)}, {size} in {count(summary.shards, 'shard')}"
    if summary.already:
        out.print(f"already converted by the same command: {written}")
    else:
        out.print(f"{written}, {seconds:.1f} s, {rate:,.0f} {what}s/s")
    for folder in summary.datasets.values():
        out.print(str(folder), style="bold")


def print_skipped(skipped: Mapping[str, int]) -> None:
    """Print how many files or records were skipped, by reason."""
    for reason, number in sorted(skipped.items()):
        out.print(f"skipped {number:,}: {reason}", style="yellow")


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
