"""What all benchmarks share: command lines, costs measured in turns, goals, and the machine."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

import stoker

from .comparison.usage import usage_of_tree

_PHOTOGRAPHS = Path("examples", "photos", "train")
_SOURCES = Path(__file__).resolve().parents[1]
PHOTOGRAPHS = _SOURCES / _PHOTOGRAPHS if (_SOURCES / _PHOTOGRAPHS).is_dir() else _PHOTOGRAPHS
"""The photographs that Stoker's sources hold; of an installed package, those in the current folder."""
_SHARED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "dataset": ("dataset", {"type": Path}),
    "source": (
        "--source",
        {"type": Path, "default": PHOTOGRAPHS, "help": "photographs, with one directory for each class"},
    ),
    "work": (
        "--work",
        {"type": Path, "default": Path("build/benchmarks"), "help": "folder for the datasets"},
    ),
    "scratch": ("--work", {"type": Path, "help": "folder for temporary files"}),
    "threads": ("--threads", {"type": int, "help": "threads of each loader; by default as many as cores"}),
    "json": ("--json", {"type": Path, "help": "file for all figures, as JSON"}),
}


def make_parser(
    description: str | None, *shared: str, rounds: int | None = None, copies: int | None = None
) -> argparse.ArgumentParser:
    """Return a parser whose help shows the docstring of a program with its line breaks."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in shared:
        flag, options = _SHARED[name]
        parser.add_argument(flag, **options)
    if rounds is not None:
        parser.add_argument("--rounds", type=int, default=rounds, help="timed turns of each")
    if copies is not None:
        text = "number of photographs, copies of those of the source"
        parser.add_argument("--copies", type=int, default=copies, help=text)
    return parser


def run_module(module: str, *arguments: object) -> Any:
    """Return the JSON that a module prints when a new process runs it."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def report(line: str) -> None:
    """Print a line of progress to standard error."""
    print(line, file=sys.stderr, flush=True)


def write_json(path: Path | None, document: Any) -> None:
    """Write figures into the file of ``--json``, if one is given."""
    if path is not None:
        path.write_text(json.dumps(document, indent=2) + "\n", "utf-8")


T = TypeVar("T")


@dataclass(frozen=True)
class Cost:
    """The mean cost of a sample in a pass, or the cost of a whole pass."""

    seconds: float
    cpu_seconds: float


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


@dataclass(frozen=True)
class Goal:
    """A goal and its measurement."""

    name: str  # Name of the measured quantity
    aim: float  # Value of the goal
    found: float  # Measured value
    at_most: bool = False  # Whether ``found`` should be at most ``aim``, not at least

    @property
    def met(self) -> bool:
        """Whether the measurement reaches the goal."""
        return self.found <= self.aim if self.at_most else self.found >= self.aim

    def to_json(self) -> dict[str, Any]:
        """Return all fields, and whether the goal is met."""
        return {**asdict(self), "met": self.met}


def show_goals(goals: Sequence[Goal], console: Console) -> None:
    """Print goals as a table."""
    table = Table("quantity", "goal", "found", "", title="Goals", title_justify="left")
    for goal in goals:
        sign = "at most" if goal.at_most else "at least"
        mark = "[green]met[/]" if goal.met else "[bold red]missed[/]"
        table.add_row(goal.name, f"{sign} {goal.aim:g}", f"{goal.found:.3g}", mark)
    console.print(table)


_PACKAGES = ("numpy", "pillow")


def allowed_cores() -> list[int]:
    """Return the numbers of the cores that this process may run on, ascending."""
    return sorted(os.sched_getaffinity(0))


def describe(cores: list[int]) -> dict[str, Any]:
    """Return processor, cores, memory, kernel and versions, as values that JSON has."""
    return {
        "cpu": _cpu_model(),
        "cores": len(cores),
        "cores_of_machine": os.cpu_count() or 0,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "stoker": stoker.__version__,
        "versions": {package: importlib.metadata.version(package) for package in _PACKAGES},
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
