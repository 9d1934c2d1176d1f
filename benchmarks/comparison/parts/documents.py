"""Command lines, JSON and tables of the parts of the comparison."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

from stoker.benchmarks.arguments import make_parser, report, write_json
from stoker.benchmarks.peers import TITLES
from stoker.benchmarks.report.machine import allowed_cores, describe

T = TypeVar("T")


def make_part_parser(
    description: str | None, against: Sequence[str], *shared: str, rounds: int | None = None
) -> argparse.ArgumentParser:
    """Return a parser with ``--json`` and ``--against``, which becomes a tuple of names.

    ``shared`` and ``rounds`` are those of :func:`stoker.benchmarks.arguments.make_parser`.
    """
    parser = make_parser(description, *shared, "json", rounds=rounds)
    parser.add_argument(
        "--against",
        type=lambda text: tuple(text.split(",")),
        default=tuple(against),
        help=f"loaders, with commas between; by default {', '.join(against)}",
    )
    return parser


def write_document(path: Path | None, loaders: Sequence[Any], **facts: Any) -> None:
    """Write the machine, ``facts`` and the figures of each loader as JSON, if there is a path.

    ``loaders`` are instances of a dataclass.
    """
    figures = [asdict(one) for one in loaders]
    write_json(path, {"machine": describe(allowed_cores()), **facts, "loaders": figures})


def measure_each(args: argparse.Namespace, what: str, measure: Callable[[str], T], **facts: Any) -> list[T]:
    """Measure the loaders of ``--against`` one after the other, and write the JSON after each of them."""
    results: list[T] = []
    for name in args.against:
        report(f"{TITLES[name]}: {what}")
        results.append(measure(name))
        write_document(args.json, results, **facts)
    return results


def print_table(
    headings: Sequence[str],
    loaders: Iterable[T],
    cells: Callable[[T], Sequence[str]],
    titles: Mapping[str, str] = TITLES,
) -> None:
    """Print a row for each loader: its title, and its figures or the reason why they are missing."""
    table = Table("loader", *headings, "", box=None)
    for one in loaders:
        name, missing = one.name, one.missing  # type: ignore[attr-defined]  # fields of each dataclass
        table.add_row(titles[name], *([""] * len(headings) if missing else cells(one)), missing)
    Console().print(table)
