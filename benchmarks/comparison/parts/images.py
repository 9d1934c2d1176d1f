"""Image loaders on every workload, with goals, and by batch size and number of threads.

    python -m stoker.benchmarks.comparison.parts.images [--source DIR] [--only photographs,short256,...]

Each part can run alone. The results are printed with their goals.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from stoker.benchmarks.arguments import make_parser, report, write_json
from stoker.benchmarks.comparison.bench import run_bench
from stoker.benchmarks.comparison.parts import cold, first_batch
from stoker.benchmarks.comparison.runner import ComparisonPlan, compare
from stoker.benchmarks.comparison.sources import open_source
from stoker.benchmarks.comparison.workloads import WORKLOADS, Workload, make_dataset
from stoker.benchmarks.conversion import throughput
from stoker.benchmarks.images import overlap
from stoker.benchmarks.peers.base import PeerSettings
from stoker.benchmarks.report.goals import Goal, show_goals
from stoker.benchmarks.report.machine import allowed_cores, describe
from stoker.benchmarks.report.plot import plot
from stoker.benchmarks.report.results import Comparison, to_json
from stoker.benchmarks.report.table import show

_FIRST_BATCH_MOST = 0.05
_TWO_THREADS_LEAST = 1.9
_CONVERSION_COPIES = 2048
_BATCH_SIZES = (1, 64, 1024)
_THREADS = (1, 2, 4, 8, 16)
_BATCH_PEERS = ("stoker", "tfdata-plain", "dali", "torch")
_THREAD_PEERS = ("stoker", "dali")
_PARTS = (*WORKLOADS, "batches", "threads", "cold", "overlap", "conversion")


class ImageBenchmark:
    """Runs parts of the comparison and keeps their results."""

    def __init__(self, args: argparse.Namespace, console: Console) -> None:
        self._args = args
        self._console = console
        self.comparisons: list[Comparison] = []
        self.goals: list[Goal] = []
        self.others: dict[str, Any] = {}

    def part(self, name: str) -> None:
        """Run one part."""
        if name in WORKLOADS:
            self._workload(WORKLOADS[name])
        else:
            getattr(self, f"_{name}")()

    def _dataset(self, workload: Workload) -> Path:
        report(f"making {workload.title.lower()}")
        return make_dataset(workload, self._args.source, self._args.work)

    def _workload(self, workload: Workload) -> None:
        dataset = self._dataset(workload)
        comparison = run_bench(
            dataset,
            workload.peers,
            engines=(),
            rounds=self._args.rounds,
            num_threads=self._args.threads,
            size=workload.size,
            workload=workload.title,
            report=report,
        )
        show(comparison, self._console)
        self.comparisons.append(comparison)
        for name in ("stoker", "stoker-dali"):
            rate, dali = comparison.rate_of(name), comparison.rate_of("dali")
            rivals = [rate for rival in workload.rivals if (rate := comparison.rate_of(rival)) is not None]
            if name == "stoker" and rate and rivals:
                self.goals.append(
                    Goal(f"{workload.title}: times the best of others", workload.least, rate / max(rivals))
                )
            elif rate and dali:
                self.goals.append(Goal(f"{workload.title}: dali engine over DALI by hand", 0.95, rate / dali))
        if workload.megapixels is None and comparison.rate_of("stoker"):
            seconds, _ = first_batch.measure(dataset)
            median = statistics.median(seconds)
            self.goals.append(
                Goal(f"{workload.title}: first batch, s", _FIRST_BATCH_MOST, median, at_most=True)
            )

    def _batches(self) -> None:
        threads = self._args.threads or len(allowed_cores())
        settings = {size: PeerSettings(size, num_threads=threads) for size in _BATCH_SIZES}
        self._sweep("batch", _BATCH_PEERS, settings)

    def _threads(self) -> None:
        """Measure each number of threads on all cores that this process may use."""
        settings = {threads: PeerSettings(num_threads=threads) for threads in _THREADS}
        rows = self._sweep("threads", _THREAD_PEERS, settings)
        one, two = rows[1]["stoker"], rows[2]["stoker"]
        if one and two:
            self.goals.append(Goal("Two threads against one", _TWO_THREADS_LEAST, two / one))

    def _sweep(
        self, unit: str, peers: tuple[str, ...], settings: dict[int, PeerSettings]
    ) -> dict[int, dict[str, float | None]]:
        """Print and return the median images per second of each loader, by the value of the unit."""
        report(f"{unit}: {', '.join(map(str, settings))}")
        dataset = self._dataset(WORKLOADS["short256"])
        rows = {value: self._rates(dataset, peers, changed) for value, changed in settings.items()}
        table = Table(unit, *peers, title=f"Images/s by {unit}, short side 256", title_justify="left")
        for value, rates in rows.items():
            table.add_row(str(value), *(f"{rate:,.0f}" if rate else "-" for rate in rates.values()))
        self._console.print(table)
        self.others[unit] = {str(value): rates for value, rates in rows.items()}
        return rows

    def _rates(
        self, dataset: Path, peers: tuple[str, ...], settings: PeerSettings
    ) -> dict[str, float | None]:
        plan = ComparisonPlan(peers, settings, tuple(allowed_cores()), self._args.rounds)
        with tempfile.TemporaryDirectory(prefix="stoker-bench-") as scratch:
            comparison = compare(open_source(dataset, Path(scratch)), plan, report)
        return {name: comparison.rate_of(name) for name in peers}

    def _cold(self) -> None:
        report("first epochs, cold and warm")
        args = self._args
        rates_by_loader = cold.measure(
            self._dataset(WORKLOADS["raw256"]), rounds=args.rounds, num_threads=args.threads, report=report
        )
        table = Table(
            "", "cold", "warm", title="Images/s of the first epoch, raw pixels", title_justify="left"
        )
        for name, rates in rates_by_loader.items():
            table.add_row(
                name, *(f"{rates[state]:,.0f}" if state in rates else "-" for state in ("cold", "warm"))
            )
        self._console.print(table)
        self.others["cold"] = rates_by_loader

    def _overlap(self) -> None:
        overlapped = overlap.measure(
            self._dataset(WORKLOADS["photographs"]), self._args.rounds, num_threads=self._args.threads
        )
        self._console.print(overlap.describe(overlapped))
        self.others["overlap"] = {**asdict(overlapped), "ratio": overlapped.ratio}
        self.goals.append(
            Goal("Epoch with a step over the longer", overlap.MOST, overlapped.ratio, at_most=True)
        )

    def _conversion(self) -> None:
        rates = throughput.measure(
            self._args.source, _CONVERSION_COPIES, self._args.rounds, self._args.threads
        )
        self._console.print("\n".join(rates.lines()))
        self.others["conversion"] = asdict(rates)
        self.goals += [
            Goal(
                "Conversion to 256 over a Pillow pool", throughput.RESIZE_LEAST, rates.resized / rates.pillow
            ),
            Goal("Conversion keeping bytes over cp -r", throughput.COPY_LEAST, rates.kept / rates.copied),
        ]

    def finish(self) -> None:
        """Print the goals; write the JSON and the plot if files are given."""
        show_goals(self.goals, self._console)
        document = {
            "machine": describe(allowed_cores()),
            "comparisons": [to_json(comparison) for comparison in self.comparisons],
            "goals": [goal.to_json() for goal in self.goals],
            **self.others,
        }
        write_json(self._args.json, document)
        if self._args.plot and self.comparisons:
            plot(self.comparisons, self._args.plot)


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__, "source", "work", "threads", "json", rounds=5)
    parser.add_argument(
        "--only", default=",".join(_PARTS), help=f"parts, with commas between: {', '.join(_PARTS)}"
    )
    parser.add_argument("--plot", type=Path, help=".png or .svg file for the picture")
    args = parser.parse_args()
    parts = args.only.split(",")
    if unknown := [name for name in parts if name not in _PARTS]:
        parser.error(f"no part named {', '.join(unknown)}; there are {', '.join(_PARTS)}")
    run = ImageBenchmark(args, Console())
    try:
        for name in parts:
            run.part(name)
    finally:
        run.finish()


if __name__ == "__main__":
    main()
