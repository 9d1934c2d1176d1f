"""The overlap of loading with a training step that takes as long as a batch.

    python -m stoker.benchmarks.comparison.images DATASET

The step sleeps, because the CPU is idle while an accelerator computes. With perfect overlap the epoch takes
as long as all steps or as all batches, whichever is longer.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop

from ..measuring import Goal, allowed_cores, describe, in_turns, make_parser, report, show_goals, write_json
from ..peers.base import PeerSettings
from . import cold, first_batch
from .bench import run_bench
from .page import plot
from .photographs import photographs_in, replicate
from .results import Comparison, show, to_json
from .runner import ComparisonPlan, compare
from .sources import WORKLOADS, Workload, make_dataset, open_source

MOST = 1.15
"""Goal: the largest ratio of an epoch to the longer of its steps and its batches."""


@dataclass(frozen=True)
class Overlap:
    """Times of an epoch in seconds, as medians over the rounds."""

    batches: int  # Number of batches in an epoch
    loading: float  # Time of an epoch without steps
    stepping: float  # Time of the steps of an epoch, as measured
    both: float  # Time of an epoch with steps
    waited_share: float  # Share of that epoch in which the consumer waits for a batch

    @property
    def ratio(self) -> float:
        """The epoch over the longer of its steps and its batches; 1 is perfect, 2 is no overlap."""
        return self.both / max(self.loading, self.stepping)


def measure_overlap(
    dataset: Path, rounds: int = 5, batch_size: int = 64, num_threads: int | None = None
) -> Overlap:
    """Measure the overlap of the native engine with steps."""
    with stoker.ImageLoader(
        dataset,
        batch_size=batch_size,
        transforms=[RandomResizedCrop(224), RandomHorizontalFlip(), Normalize()],
        shuffle=True,
        last_batch="drop",
        engine="native",
        num_threads=num_threads or len(allowed_cores()),
    ) as loader:
        _epoch(loader, 0.0)
        loading, stepping, both, waited = [], [], [], []
        for _ in range(rounds):
            loading.append(_epoch(loader, 0.0)[0])
            before = loader.stats().waited
            seconds, stepped = _epoch(loader, loading[-1] / len(loader))
            both.append(seconds)
            stepping.append(stepped)
            waited.append((loader.stats().waited - before) / seconds)
        median = statistics.median
        return Overlap(len(loader), median(loading), median(stepping), median(both), median(waited))


def _epoch(loader: stoker.ImageLoader, step: float) -> tuple[float, float]:
    """Return the seconds of one epoch and of its steps; a sleep may take longer than requested."""
    stepped = 0.0
    start = time.perf_counter()
    for _ in loader:
        if step:
            begin = time.perf_counter()
            time.sleep(step)
            stepped += time.perf_counter() - begin
    return time.perf_counter() - start, stepped


def overlap_in_words(overlap: Overlap) -> str:
    """Return the result in one line."""
    return (
        f"{overlap.batches} batches: loading {overlap.loading:.2f} s, steps {overlap.stepping:.2f} s, both "
        f"{overlap.both:.2f} s: {overlap.ratio:.2f} times the longer (goal: at most {MOST}); the consumer "
        f"waited {overlap.waited_share:.0%} of the time"
    )


_SHORTER, _QUALITY = 256, 90
RESIZE_LEAST, COPY_LEAST = 2.0, 0.5


@dataclass(frozen=True)
class Conversion:
    """Images per second of four ways, as medians over the rounds."""

    images: int  # Number of files in the source
    bytes: int  # Bytes of all files
    resized: float  # ``stoker.convert`` with ``resize="shorter=256", quality=90``
    pillow: float  # The same resize by a process pool with Pillow, which writes files
    kept: float  # ``stoker.convert`` that keeps the bytes, with checks and a sync to disk
    copied: float  # ``cp -r``

    def lines(self) -> list[str]:
        """Return the result as lines of text."""
        return [
            f"conversion to short side {_SHORTER}: {self.resized:,.0f} images/s, a process pool with Pillow "
            f"{self.pillow:,.0f}: {self.resized / self.pillow:.2f} times (goal: at least {RESIZE_LEAST})",
            f"conversion that keeps the bytes: {self.kept:,.0f} images/s, cp -r {self.copied:,.0f}: "
            f"{self.kept / self.copied:.2f} times (goal: at least {COPY_LEAST})",
        ]


def measure_throughput(
    source: Path, copies: int, rounds: int = 5, num_threads: int | None = None
) -> Conversion:
    """Measure the four ways of conversion in turns."""
    workers = num_threads or len(allowed_cores())
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as scratch:
        files, target = Path(scratch) / "files", Path(scratch) / "target"
        replicate(source, files, copies)
        ways: dict[str, Callable[[], object]] = {
            "resized": lambda: stoker.convert(
                files, target, resize=f"shorter={_SHORTER}", quality=_QUALITY, num_threads=workers
            ),
            "pillow": lambda: resize_with_pillow(files, target, workers),
            "kept": lambda: stoker.convert(files, target, num_threads=workers),
            "copied": lambda: subprocess.run(["cp", "-r", str(files), str(target)], check=True),
        }
        runs = {name: partial(_timed, way, target) for name, way in ways.items()}
        rates = {name: copies / statistics.median(taken) for name, taken in in_turns(runs, rounds).items()}
        size = sum(path.stat().st_size for path in photographs_in(files))
    return Conversion(copies, size, **rates)


def _timed(work: Callable[[], object], target: Path) -> float:
    start = time.perf_counter()
    work()
    seconds = time.perf_counter() - start
    shutil.rmtree(target)
    return seconds


def resize_with_pillow(files: Path, target: Path, workers: int) -> None:
    """Resize every photograph to a short side of 256 with Pillow in worker processes."""
    for folder in files.iterdir():
        (target / folder.name).mkdir(parents=True)
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        for _ in pool.imap_unordered(partial(_resize, target=target), photographs_in(files), chunksize=16):
            pass


def _resize(path: Path, target: Path) -> None:
    from PIL import Image

    with Image.open(path) as image:
        factor = _SHORTER / min(image.size)
        size = (round(image.width * factor), round(image.height * factor))
        resized = image.convert("RGB").resize(size, Image.Resampling.BILINEAR)
    resized.save(target / path.parent.name / path.name, quality=_QUALITY)


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
        overlapped = measure_overlap(
            self._dataset(WORKLOADS["photographs"]), self._args.rounds, num_threads=self._args.threads
        )
        self._console.print(overlap_in_words(overlapped))
        self.others["overlap"] = {**asdict(overlapped), "ratio": overlapped.ratio}
        self.goals.append(Goal("Epoch with a step over the longer", MOST, overlapped.ratio, at_most=True))

    def _conversion(self) -> None:
        rates = measure_throughput(
            self._args.source, _CONVERSION_COPIES, self._args.rounds, self._args.threads
        )
        self._console.print("\n".join(rates.lines()))
        self.others["conversion"] = asdict(rates)
        self.goals += [
            Goal("Conversion to 256 over a Pillow pool", RESIZE_LEAST, rates.resized / rates.pillow),
            Goal("Conversion keeping bytes over cp -r", COPY_LEAST, rates.kept / rates.copied),
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
