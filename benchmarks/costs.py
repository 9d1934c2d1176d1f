"""Measurement of the cost of a sample for loaders in turn, and the command line of these benchmarks."""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import stoker
from stoker.benchmarks.arguments import make_parser
from stoker.benchmarks.comparison.photographs import PHOTOGRAPHS, make_imagenet_like, replicate
from stoker.benchmarks.comparison.usage import usage_of_tree

__all__ = [
    "Cost",
    "cost_parser",
    "costs_in_turns",
    "imagenet_like",
    "median",
    "show_costs",
    "timed",
]


@dataclass(frozen=True)
class Cost:
    """The mean cost of a sample in a pass."""

    seconds: float
    cpu_seconds: float


def cost_parser(description: str | None, copies: int = 512) -> argparse.ArgumentParser:
    """Return a parser of the arguments of :func:`imagenet_like`, and of ``--rounds`` and ``--json``."""
    parser = make_parser(description)
    parser.add_argument("--source", type=Path, default=PHOTOGRAPHS)
    parser.add_argument("--work", type=Path, help="folder for temporary files")
    parser.add_argument(
        "--copies", type=int, default=copies, help="number of photographs, copies of those of the source"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="file for all figures, as JSON")
    return parser


@contextmanager
def imagenet_like(given: argparse.Namespace, name: str) -> Iterator[Path]:
    """Yield a temporary folder with photographs of ImageNet's size and quality in ``made`` and ``copies``.

    Args:
        given: Arguments of :func:`cost_parser`.
        name: Name of the benchmark, for the name of the folder.
    """
    with tempfile.TemporaryDirectory(prefix=f"stoker-{name}-", dir=given.work) as scratch:
        work = Path(scratch)
        make_imagenet_like(given.source, work / "made")
        replicate(work / "made", work / "copies", given.copies)
        yield work


def costs_in_turns(turns: Mapping[str, Iterable[Any]], rounds: int) -> dict[str, Cost]:
    """Return the median costs of a sample by the name of its loader, after an untimed turn of each."""
    costs: dict[str, list[Cost]] = {name: [] for name in turns}
    for _ in range(rounds + 1):
        for name, batches in turns.items():
            costs[name].append(timed(batches))
    return {name: median(found[1:]) for name, found in costs.items()}


def median(costs: Sequence[Cost]) -> Cost:
    """The medians of the figures of several passes."""
    return Cost(
        statistics.median(one.seconds for one in costs), statistics.median(one.cpu_seconds for one in costs)
    )


def timed(batches: Iterable[Any]) -> Cost:
    """The cost of a sample in one pass; the last column of a batch has one element for each sample."""
    _discard(batches)
    before, began, samples = usage_of_tree(os.getpid()), time.perf_counter(), 0
    for batch in batches:
        samples += len(batch[-1])
    seconds = time.perf_counter() - began
    cpu_seconds = usage_of_tree(os.getpid()).cpu_seconds - before.cpu_seconds
    _discard(batches)
    return Cost(seconds / samples, cpu_seconds / samples)


def _discard(batches: Iterable[Any]) -> None:
    """Drop the batches that a loader has made ahead, so that each turn pays for its own batches."""
    if isinstance(batches, stoker.ImageLoader):
        batches.load_state_dict(batches.state_dict())
    elif hasattr(batches, "discard"):
        batches.discard()


def show_costs(costs: Mapping[str, Cost], console: Console, title: str, sample: str = "image") -> None:
    """Print a table of costs with a row for each loader."""
    table = Table("loader", f"{sample}s/s", f"CPU ms a {sample}", title=title)
    for name, cost in costs.items():
        table.add_row(name, f"{1 / cost.seconds:,.0f}", f"{1000 * cost.cpu_seconds:.2f}")
    console.print(table)
