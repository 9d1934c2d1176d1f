"""The time of the first batch of a new loader.

    python -m stoker.benchmarks.comparison.first_batch DATASET [--processes 15]

Each measurement takes a new process, which makes the loader and measures the time from the request for its
first epoch to the first batch. The mean time of the later batches of that epoch is a lower bound.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from ..measuring import allowed_cores, make_parser
from ..peers.base import PeerSettings
from .runner import PeerProcess
from .sources import open_source


def measure(
    dataset: Path, processes: int = 15, batch_size: int = 64, peer: str = "stoker"
) -> tuple[list[float], list[float]]:
    """Return the seconds of the first batch and of a later batch in each process."""
    settings = PeerSettings(batch_size=batch_size, num_threads=len(allowed_cores()))
    first, later = [], []
    with tempfile.TemporaryDirectory() as scratch:
        source = open_source(dataset, Path(scratch))
        for _ in range(processes):
            with PeerProcess(peer) as process:
                process.begin(source, settings, write=False)
                epoch = process.ask("warm_up")
            first.append(epoch["first_batch_seconds"])
            others = epoch["images"] // batch_size - 1
            if others:
                later.append((epoch["seconds"] - first[-1]) / others)
    return first, later


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__, "dataset")
    parser.add_argument("--processes", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--peer", default="stoker")
    args = parser.parse_args()
    first, later = measure(args.dataset, args.processes, args.batch_size, args.peer)
    for name, seconds in (("first batch", first), ("a later batch", later)):
        if seconds:
            low, middle, high = (1000 * f(seconds) for f in (min, statistics.median, max))
            print(f"{name:>13}: median {middle:.1f} ms, {low:.1f} to {high:.1f} ms")


if __name__ == "__main__":
    main()
