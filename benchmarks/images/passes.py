"""The cost of the start of a pass where passes are short.

    python -m stoker.benchmarks.images.passes DATASET

Many passes over 256 samples (repeats of those in the dataset) run in two ways, in turns. By default a loader
works ahead into the next pass. In the other way the batches that it made ahead are discarded first.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import numpy as np

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop
from stoker.benchmarks.arguments import make_parser
from stoker.benchmarks.costs import discard
from stoker.benchmarks.report.machine import allowed_cores


def measure(
    dataset: Path, samples: int = 256, epochs: int = 50, rounds: int = 5, size: int = 224
) -> dict[str, float]:
    """Return median images/s over all passes by way."""
    opened = stoker.open(dataset)
    rates: dict[str, list[float]] = {"each pass alone": [], "on into the next pass": []}
    with stoker.ImageLoader(
        opened.select(np.arange(samples) % len(opened)),
        batch_size=64,
        transforms=[RandomResizedCrop(size), RandomHorizontalFlip(), Normalize()],
        shuffle=True,
        engine="native",
        num_threads=len(allowed_cores()),
    ) as loader:
        for _ in range(rounds):
            for way, measured in rates.items():
                _run(loader, 2, alone=True)  # warm, with no batch ready
                start = time.perf_counter()
                images = _run(loader, epochs, alone=way == "each pass alone")
                measured.append(images / (time.perf_counter() - start))
    return {way: statistics.median(measured) for way, measured in rates.items()}


def _run(loader: stoker.ImageLoader, epochs: int, *, alone: bool) -> int:
    images = 0
    for _ in range(epochs):
        images += sum(len(batch) for batch, _ in loader)
        if alone:
            discard(loader)
    return images


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__, "dataset", rounds=5)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--size", type=int, default=224)
    args = parser.parse_args()
    rates = measure(args.dataset, args.samples, args.epochs, args.rounds, args.size)
    for way, rate in rates.items():
        print(f"{way:>22}: {rate:8,.0f} images/s")


if __name__ == "__main__":
    main()
