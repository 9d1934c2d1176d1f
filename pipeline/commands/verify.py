"""The command ``stoker verify``, which checks a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stoker.formats.open import open as open_dataset
from stoker.formats.verify import Report
from stoker.formats.verify import verify as run

from ..certificate import certificate_problems
from ..preview.replay import read_json
from .console import count, human_bytes, out, plain, print_json, progress
from .options import Dataset, JsonOutput, Threads
from .summary import report_json


def verify(
    dataset: Dataset,
    decode: Annotated[
        bool, typer.Option("--decode", help="Decode every image, too. This takes far longer.")
    ] = False,
    certificate: Annotated[
        Path | None,
        typer.Option(help="JSON of loader.certificate(): compare its SHA-256 tree with all bytes instead."),
    ] = None,
    as_json: JsonOutput = False,
    threads: Threads = None,
) -> None:
    """Check every byte of a dataset.

    The command compares all checksums, and checks labels, objects and masks against the index. The exit
    status is 1 if it finds a problem.

    With --certificate the command compares the bytes with the certificate of a training, and says whether the
    training saw this data.

    Examples:
      stoker verify shards/train
      stoker verify shards/train --decode
      stoker verify shards/train --certificate certificate.json
    """
    if certificate is not None:
        _verify_certificate(dataset, certificate, as_json=as_json)
        return

    with progress("verifying", "samples") as show:
        report = run(dataset, decode=decode, num_threads=threads, progress=show)
    if as_json:
        print_json(report_json(report))
    else:
        _print_report(report)
    if not report.ok:
        raise typer.Exit(1)


def _verify_certificate(dataset: str, certificate: Path, *, as_json: bool) -> None:

    problems = certificate_problems(read_json(certificate), open_dataset(dataset))
    if as_json:
        print_json({"good": not problems, "problems": problems})
    for problem in () if as_json else problems:
        out.print(plain(problem), style="red")
    if problems:
        raise typer.Exit(1)
    if not as_json:
        out.print("good: the training saw this data, byte for byte", style="green")


def _print_report(report: Report) -> None:
    for problem in report.problems:
        out.print(plain(str(problem)), style="red")
    checked = f"{count(report.samples, 'sample')}, {human_bytes(report.bytes)}"
    if report.ok:
        out.print(f"good: {checked}{', all decoded' if report.decoded else ''}", style="green")
    else:
        out.print(f"{count(report.found, 'problem')} in {checked}", style="bold red")
