"""What the start of a pass costs where passes are short, and what is left of it.

    python -m stoker.benchmarks.images.passes DATASET

A dataset of 256 samples (those given, again and again) is run through many times, in two ways that
take turns: the loader goes on into the next pass, as it does by itself, or what it has made of that
pass is thrown away first.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import numpy as np

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop
from stoker.benchmarks.report.machine import available_cores

__all__ = ["measure"]


def measure(
    dataset: Path, samples: int = 256, epochs: int = 50, rounds: int = 5, size: int = 224
) -> dict[str, float]:
    """Median images/s over all passes, of the two ways."""
    opened = stoker.open(dataset)
    rates: dict[str, list[float]] = {"each pass alone": [], "on into the next pass": []}
    with stoker.ImageLoader(
        opened.select(np.arange(samples) % len(opened)),
        batch_size=64,
        transforms=[RandomResizedCrop(size), RandomHorizontalFlip(), Normalize()],
        shuffle=True,
        engine="native",
        num_threads=len(available_cores()),
    ) as loader:
        for _ in range(rounds):
            for way, measured in rates.items():
                _run(loader, 2, alone=True)  # warm, and nothing ready
                start = time.perf_counter()
                images = _run(loader, epochs, alone=way == "each pass alone")
                measured.append(images / (time.perf_counter() - start))
    return {way: statistics.median(measured) for way, measured in rates.items()}


def _run(loader: stoker.ImageLoader, epochs: int, *, alone: bool) -> int:
    images = 0
    for _ in range(epochs):
        images += sum(len(batch) for batch, _ in loader)
        if alone:
            loader.load_state_dict(loader.state_dict())
    return images


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=224)
    given = parser.parse_args()
    rates = measure(given.dataset, given.samples, given.epochs, given.rounds, given.size)
    for way, rate in rates.items():
        print(f"{way:>22}: {rate:8,.0f} images/s")


if __name__ == "__main__":
    main()
