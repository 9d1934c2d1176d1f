"""The rate of ``stoker duplicates``: reading, decoding and hashing of images, and the search for near pairs.

    python -m stoker.benchmarks.duplicates [--source PHOTOS] [--copies N] [--rounds N]

The page cache is warm. CPU seconds show the cost of an image on a busy machine.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import stoker
from stoker.benchmarks.arguments import make_parser
from stoker.benchmarks.comparison.photographs import replicate


def measure(dataset: Path, images: int, rounds: int) -> tuple[float, float]:
    """Return the median of images a second, and the least CPU seconds for a thousand images."""
    walls, cpus = [], []
    for _ in range(rounds):
        wall, cpu = time.perf_counter(), time.process_time()
        stoker.duplicates(dataset)
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return images / statistics.median(walls), 1000 * min(cpus) / images


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__, "source", rounds=5, copies=1024)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stoker-duplicates-") as work:
        replicate(args.source, Path(work) / "photographs", args.copies)
        stoker.convert(Path(work) / "photographs", Path(work) / "shards")
        rate, seconds = measure(Path(work) / "shards", args.copies, args.rounds)
    print(f"{args.copies:,} images: {rate:,.0f} a second, {seconds:.2f} s of CPU for a thousand")


if __name__ == "__main__":
    main()
