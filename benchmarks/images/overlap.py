"""The overlap of loading with a training step that takes as long as a batch.

    python -m stoker.benchmarks.images.overlap DATASET

The step sleeps, because the CPU is idle while an accelerator computes. With perfect overlap the epoch takes
as long as all steps or as all batches, whichever is longer.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop
from stoker.benchmarks.arguments import make_parser
from stoker.benchmarks.report.machine import allowed_cores

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


def measure(dataset: Path, rounds: int = 5, batch_size: int = 64, num_threads: int | None = None) -> Overlap:
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


def describe(overlap: Overlap) -> str:
    """Return the result in one line."""
    return (
        f"{overlap.batches} batches: loading {overlap.loading:.2f} s, steps {overlap.stepping:.2f} s, both "
        f"{overlap.both:.2f} s: {overlap.ratio:.2f} times the longer (goal: at most {MOST}); the consumer "
        f"waited {overlap.waited_share:.0%} of the time"
    )


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__, "dataset", "threads", rounds=5)
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()
    print(describe(measure(args.dataset, args.rounds, args.batch_size, args.threads)))


if __name__ == "__main__":
    main()
