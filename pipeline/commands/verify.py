"""The command ``stoker verify``, which checks a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .shared.console import count, human_bytes, out, plain, print_json
from .shared.options import Dataset, JsonOutput, Threads
from .shared.progress import progress

if TYPE_CHECKING:
    from stoker.formats.verification.verify import Report

__all__ = ["verify"]


def verify(
    dataset: Dataset,
    decode: Annotated[
        bool, typer.Option("--decode", help="Decode every image, too. This takes far longer.")
    ] = False,
    as_json: JsonOutput = False,
    threads: Threads = None,
) -> None:
    """Check every byte of a dataset.

    The command compares all checksums, and checks labels, objects and masks against the index. The exit
    status is 1 if it finds a problem.

    Examples:
      stoker verify shards/train
      stoker verify shards/train --decode
    """
    from stoker.formats.verification.verify import verify as run

    from .description.as_json import report_json

    with progress("verifying", "samples") as show:
        report = run(dataset, decode=decode, num_threads=threads, progress=show)
    if as_json:
        print_json(report_json(report))
    else:
        _print_report(report)
    if not report.ok:
        raise typer.Exit(1)


def _print_report(report: Report) -> None:
    for problem in report.problems:
        out.print(plain(str(problem)), style="red")
    checked = f"{count(report.samples, 'sample')}, {human_bytes(report.bytes)}"
    if report.ok:
        out.print(f"good: {checked}{', all decoded' if report.decoded else ''}", style="green")
    else:
        out.print(f"{count(report.found, 'problem')} in {checked}", style="bold red")
