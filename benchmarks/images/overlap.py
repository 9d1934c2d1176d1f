"""Does loading hide behind the step? An epoch with a step that takes as long as a batch.

    python -m stoker.benchmarks.images.overlap DATASET

The step sleeps, as the processor does while an accelerator computes. With perfect overlap the epoch
takes as long as the longer of all steps and all batches.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop
from stoker.benchmarks.report.machine import available_cores

__all__ = ["MOST", "Overlap", "measure"]

MOST = 1.15
"""An epoch may take this many times the longer of the two."""


@dataclass(frozen=True)
class Overlap:
    """Medians over the rounds, in seconds.

    Attributes:
        batches: Batches an epoch.
        loading: An epoch without a step.
        stepping: The steps of an epoch alone, as long as they were when measured.
        both: An epoch with the step.
        waited_share: Share of that epoch in which the consumer waited for a batch.
    """

    batches: int
    loading: float
    stepping: float
    both: float
    waited_share: float

    @property
    def ratio(self) -> float:
        """Epoch over the longer of the two; 1 is perfect, 2 is no overlap."""
        return self.both / max(self.loading, self.stepping)


def measure(dataset: Path, rounds: int = 5, batch_size: int = 64, num_threads: int | None = None) -> Overlap:
    """Measure how well Stoker's native engine overlaps with a step."""
    with stoker.ImageLoader(
        dataset,
        batch_size=batch_size,
        transforms=[RandomResizedCrop(224), RandomHorizontalFlip(), Normalize()],
        shuffle=True,
        last_batch="drop",
        engine="native",
        num_threads=num_threads or len(available_cores()),
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
    """Seconds of one epoch, and of the steps in it: a sleep may take longer than was asked for."""
    stepped = 0.0
    start = time.perf_counter()
    for _ in loader:
        if step:
            begin = time.perf_counter()
            time.sleep(step)
            stepped += time.perf_counter() - begin
    return time.perf_counter() - start, stepped


def describe(overlap: Overlap) -> str:
    """The result in one line."""
    return (
        f"{overlap.batches} batches: loading {overlap.loading:.2f} s, steps {overlap.stepping:.2f} s, both "
        f"{overlap.both:.2f} s: {overlap.ratio:.2f} times the longer (aim: at most {MOST}); the consumer "
        f"waited {overlap.waited_share:.0%} of the time"
    )


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--threads", type=int)
    given = parser.parse_args()
    print(describe(measure(given.dataset, given.rounds, given.batch_size, given.threads)))


if __name__ == "__main__":
    main()
