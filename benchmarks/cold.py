"""Reading from a cold page cache: an epoch with read-ahead, and one without.

Before each turn the kernel is told to forget the shards (``posix_fadvise``, no privileges needed); turns
alternate. The images are decoded by the native engine as always.

    python -m stoker.benchmarks.cold shards/train
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop
from stoker.benchmarks.machine import available_cores, describe

if TYPE_CHECKING:
    from stoker import Dataset

__all__ = ["forget", "main"]


def forget(dataset: Dataset) -> None:
    """Drop the dataset's shards from the page cache."""
    for path in dataset.data_files:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def _epoch(dataset: Dataset, read_ahead: int, mapped: bool) -> float:
    """Images a second over one epoch; the loader is made anew, for what is mapped is not forgotten."""
    forget(dataset)
    with stoker.ImageLoader(
        dataset,
        batch_size=64,
        shuffle=True,
        engine="native",
        mapped=mapped,
        read_ahead=read_ahead,
        transforms=[RandomResizedCrop(224), RandomHorizontalFlip(), Normalize()],
    ) as loader:
        began = perf_counter()
        for _ in loader:
            pass
        return len(dataset) / (perf_counter() - began)


def main() -> None:
    """Alternate between the variants and print medians."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    dataset = stoker.open(options.dataset)
    variants = {
        f"{how}, {'read-ahead of 8 batches' if ahead else 'no read-ahead'}": (ahead, how == "mapped")
        for how in ("mapped", "pread")
        for ahead in (8, 0)
    }
    rates: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(options.rounds):
        for name, (ahead, mapped) in variants.items():
            rates[name].append(_epoch(dataset, ahead, mapped))
    for name, values in rates.items():
        low, middle, high = min(values), statistics.median(values), max(values)
        print(f"{name:34} {middle:7,.0f} images/s   {low:,.0f} to {high:,.0f}")
    if options.json:
        result = {"machine": describe(available_cores()), "samples": len(dataset), "images_per_second": rates}
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
