"""What all benchmarks share: command lines, costs measured in turns, and the machine."""

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
from collections.abc import Callable, Iterable, Mapping
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
_PACKAGES = ("numpy", "pillow")
_SHARED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "source": (
        "--source",
        {"type": Path, "default": PHOTOGRAPHS, "help": "photographs, with one directory for each class"},
    ),
    "work": (
        "--work",
        {"type": Path, "default": Path("build/benchmarks"), "help": "folder for the datasets"},
    ),
    "scratch": ("--work", {"type": Path, "help": "folder for temporary files"}),
    "json": ("--json", {"type": Path, "help": "file for all results, as JSON"}),
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


def run_module(module: str, *arguments: object, **environment: str) -> Any:
    """Return the JSON that a module prints when a new process runs it."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    variables = {**os.environ, **environment}
    done = subprocess.run(command, env=variables, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def report(line: str) -> None:
    """Print a line of progress to standard error."""
    print(line, file=sys.stderr, flush=True)


def write_json(path: Path | None, document: Any) -> None:
    """Write results into the file of ``--json``, if one is given."""
    if path is not None:
        path.write_text(json.dumps(document, indent=2) + "\n", "utf-8")


T = TypeVar("T")


@dataclass(frozen=True)
class Cost:
    """The mean cost of a sample in a turn."""

    seconds: float
    cpu_seconds: float  # of this process and of those that it started


@dataclass(frozen=True)
class Epoch:
    """A turn that passes over batches, whose last column has one element for each sample."""

    batches: Iterable[Any]
    passes: int = 1

    def __call__(self) -> int:
        return sum(len(batch[-1]) for _ in range(self.passes) for batch in self.batches)


def loading(dataset: Any, transforms: Any, batch_size: int, *, passes: int = 1, **options: Any) -> Epoch:
    """Return passes over images in random order, by as many threads as cores."""
    given = {"shuffle": True, "num_threads": len(allowed_cores()), "prefetch": 2, **options}
    return Epoch(stoker.ImageLoader(dataset, batch_size=batch_size, transforms=transforms, **given), passes)


def costs_in_turns(turns: Mapping[str, Callable[[], int]], rounds: int) -> dict[str, Cost]:
    """Return the median costs by name of functions that return their number of samples."""
    runs = {name: partial(timed, turn) for name, turn in turns.items()}
    middle = statistics.median
    return {
        name: Cost(middle(one.seconds for one in costs), middle(one.cpu_seconds for one in costs))
        for name, costs in in_turns(runs, rounds).items()
    }


def in_turns(runs: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Call functions in turns, and return the results of each by name, without those of the first round."""
    results: dict[str, list[T]] = {name: [] for name in runs}
    for _ in range(rounds + 1):
        for name, run in runs.items():
            results[name].append(run())
    return {name: values[1:] for name, values in results.items()}


def timed(turn: Callable[[], int]) -> Cost:
    """Return the cost of a sample in one turn."""
    _discard(turn)
    before, began = usage_of_tree(os.getpid()).cpu_seconds, time.perf_counter()
    samples = turn()
    seconds, cpu_seconds = time.perf_counter() - began, usage_of_tree(os.getpid()).cpu_seconds - before
    _discard(turn)
    return Cost(seconds / samples, cpu_seconds / samples)


def _discard(turn: Any) -> None:
    """Drop the batches that a loader has made ahead, so that each turn pays for its own batches."""
    loader = getattr(turn, "batches", None)
    if isinstance(loader, stoker.ImageLoader):
        loader.load_state_dict(loader.state_dict())


def show_costs(costs: Mapping[str, Cost], title: str, sample: str = "image") -> None:
    """Print a row for each turn; the last columns compare it with the first turn."""
    table = Table(title, f"{sample}s/s", f"CPU ms a {sample}", "times the rate", "times a CPU second")
    first = next(iter(costs.values()))
    for name, cost in costs.items():
        rate, cpu = f"{1 / cost.seconds:,.0f}", f"{1000 * cost.cpu_seconds:.3f}"
        ratios = first.seconds / cost.seconds, first.cpu_seconds / cost.cpu_seconds
        table.add_row(name, rate, cpu, *(f"{ratio:.2f}" for ratio in ratios))
    Console().print(table)


def write_costs(path: Path | None, costs: Mapping[str, Cost], **more: Any) -> None:
    """Write costs and the machine into the file of ``--json``, if one is given."""
    found = {name: asdict(cost) for name, cost in costs.items()}
    write_json(path, {"machine": describe(allowed_cores()), "costs": found, **more})


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
