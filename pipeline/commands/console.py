"""Console output of the commands: tables, rows, errors and summaries."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
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
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from stoker.errors import StokerError

if TYPE_CHECKING:
    from stoker.formats.conversion.publishing import Summary

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
    message = str(error) or "there is too little memory"
    if isinstance(error, OSError) and not isinstance(error, StokerError) and error.strerror:
        message = error.strerror + (f" (path {error.filename!r})" if error.filename else "")
    line = Text("error: ", style="bold red").append(plain(message), style="not bold default")
    error_console().print(line)


def error_console() -> Console:
    """Return a console on the present standard error, because tests and users redirect it."""
    return Console(stderr=True, highlight=False, soft_wrap=True, markup=False)


def table(*titles: str, title: str | None = None) -> Table:
    """Return an empty table whose first column is text and whose others are numbers."""
    empty = Table(box=SIMPLE_HEAD, pad_edge=False, title=title)
    for number, column in enumerate(titles):
        empty.add_column(column, justify="left" if number == 0 else "right", overflow="fold")
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
def progress(title: str, unit: str, *, resumes: bool = False) -> Iterator[Callable[..., None]]:
    """Yield a function of (done, total, ...) that shows the progress of a long task on standard error.

    A terminal gets a bar with the rate and the remaining time, a file or log a line every ten seconds.
    ``unit`` is the noun of what is counted, in the plural. With ``resumes``, a message after Ctrl-C says that
    the same command continues.
    """
    started: tuple[int, float] | None = None  # units that an earlier, stopped run did; this run's begin
    printed = monotonic()

    def show(done: int, total: int, *_: object) -> None:
        nonlocal started, printed
        now = monotonic()
        if started is None and total:
            started = (done, now)
        before, began = started or (done, now)
        pace = (done - before) / (now - began) if now > began else 0.0
        rate = f"{pace:,.0f} {unit}/s" if pace else ""
        if bar is not None:
            bar.update(TaskID(0), completed=done, total=total or None, rate=rate)
        elif now - printed >= _SECONDS_BETWEEN_LINES:
            printed = now
            left = f", {rate}, {(total - done) / pace:,.0f} s left" if pace else ""
            share = done / max(total, 1)
            line = f"{title}: {done:,} of {total:,} ({share:.0%}){left}"
            print(line, file=sys.stderr, flush=True)

    try:
        with _bar(title) if is_terminal(sys.stderr) else nullcontext() as bar:
            yield show
    except KeyboardInterrupt:
        error_console().print("stopped" + ("; the same command continues from here" if resumes else ""))
        raise


def _bar(title: str) -> Progress:
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    bar.add_task(title, total=None, rate="")
    return bar
