"""The command ``stoker verify``, which checks a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from stoker.formats.open import open as open_dataset
from stoker.formats.verify import verify as run

from ..certificate import certificate_problems
from ..preview.replay import read_json
from .console import count, human_bytes, out, plain, print_json, progress
from .options import Dataset, JsonOutput, Threads


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
        print_json({"ok": report.ok, **asdict(report), "path": str(report.path)})
    else:
        checked = f"{count(report.samples, 'sample')}, {human_bytes(report.bytes)}"
        good = f"{checked}{', all decoded' if report.decoded else ''}"
        _print_verdict(report.problems, good, f"{count(report.found, 'problem')} in {checked}")
    if not report.ok:
        raise typer.Exit(1)


def _verify_certificate(dataset: str, certificate: Path, *, as_json: bool) -> None:
    problems = certificate_problems(read_json(certificate), open_dataset(dataset))
    if as_json:
        print_json({"good": not problems, "problems": problems})
    else:
        _print_verdict(problems, "the training saw this data, byte for byte")
    if problems:
        raise typer.Exit(1)


def _print_verdict(problems: Sequence[object], good: str, bad: str = "") -> None:
    for problem in problems:
        out.print(plain(str(problem)), style="red")
    if not problems:
        out.print(f"good: {good}", style="green")
    elif bad:
        out.print(bad, style="bold red")
