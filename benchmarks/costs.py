"""Measurement of the cost of a sample, for loaders that take turns."""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

import stoker
from stoker.benchmarks.comparison.photographs import make_imagenet_like, replicate
from stoker.benchmarks.comparison.usage import usage_of_tree

T = TypeVar("T")


@dataclass(frozen=True)
class Cost:
    """The mean cost of a sample in a pass, or the cost of a whole pass."""

    seconds: float
    cpu_seconds: float


@contextmanager
def imagenet_like(args: argparse.Namespace, name: str) -> Iterator[Path]:
    """Yield a temporary folder with photographs of ImageNet's size and quality in ``made`` and ``copies``."""
    with tempfile.TemporaryDirectory(prefix=f"stoker-{name}-", dir=args.work) as scratch:
        work = Path(scratch)
        make_imagenet_like(args.source, work / "made")
        replicate(work / "made", work / "copies", args.copies)
        yield work


def costs_in_turns(turns: Mapping[str, Iterable[Any]], rounds: int) -> dict[str, Cost]:
    """Return the median costs of a sample by the name of its loader, after an untimed turn of each."""
    runs = {name: partial(timed, batches) for name, batches in turns.items()}
    return {name: median(results) for name, results in in_turns(runs, rounds).items()}


def in_turns(runs: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Call functions in turns, and return the results of each by name, without those of the first round."""
    results: dict[str, list[T]] = {name: [] for name in runs}
    for _ in range(rounds + 1):
        for name, run in runs.items():
            results[name].append(run())
    return {name: values[1:] for name, values in results.items()}


def median(costs: Sequence[Cost]) -> Cost:
    """Return the medians of both figures."""
    middle = statistics.median
    return Cost(middle(one.seconds for one in costs), middle(one.cpu_seconds for one in costs))


def timed(batches: Iterable[Any]) -> Cost:
    """Return the cost of a sample in one pass; the last column of a batch has one element for each sample."""
    discard(batches)
    before, began, samples = usage_of_tree(os.getpid()), time.perf_counter(), 0
    for batch in batches:
        samples += len(batch[-1])
    seconds = time.perf_counter() - began
    cpu_seconds = usage_of_tree(os.getpid()).cpu_seconds - before.cpu_seconds
    discard(batches)
    return Cost(seconds / samples, cpu_seconds / samples)


def discard(batches: Iterable[Any]) -> None:
    """Drop the batches that a loader has made ahead, so that each turn pays for its own batches."""
    if isinstance(batches, stoker.ImageLoader):
        batches.load_state_dict(batches.state_dict())
    elif hasattr(batches, "loader"):
        discard(batches.loader)


def show_costs(costs: Mapping[str, Cost], console: Console, title: str, sample: str = "image") -> None:
    """Print a table of costs with a row for each loader."""
    table = Table("loader", f"{sample}s/s", f"CPU ms a {sample}", title=title)
    for name, cost in costs.items():
        table.add_row(name, f"{1 / cost.seconds:,.0f}", f"{1000 * cost.cpu_seconds:.2f}")
    console.print(table)
