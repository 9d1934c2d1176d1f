"""The first epoch from a disk as slow as a hard disk: loose files, shards, and shuffled blocks.

    python -m stoker.benchmarks.comparison.parts.disk DATASET [--megabytes 150] [--requests 120]

The kernel limits the megabytes and the requests that each loader reads in a second (control groups, for root
only). A hard disk that seeks 120 times a second reads files of 50 KB at 6 MB/s, and long runs at 150 MB/s.
The files of a loader are dropped from the page cache first. Names of files and folders stay in memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.benchmarks.comparison.parts.cold import evict
from stoker.benchmarks.comparison.parts.documents import make_part_parser, measure_each, print_table
from stoker.benchmarks.comparison.runner import PeerGone, PeerProcess
from stoker.benchmarks.comparison.sources import open_source
from stoker.benchmarks.comparison.usage import process_tree
from stoker.benchmarks.peers.base import PeerSettings, PeerSource
from stoker.benchmarks.report.machine import allowed_cores
from stoker.benchmarks.storage.throttled_disk import throttled_disk

_AGAINST = (
    "torch-files",
    "stoker-files",
    "stoker",
    "stoker-blocks",
    "torch",
    "tfdata",
    "dali",
    "ffcv",
    "webdataset",
    "litdata",
    "mosaic-streaming",
    "grain",
    "hf-datasets",
)


@dataclass(frozen=True)
class DiskEpoch:
    """The first epoch of one loader, without its files in the page cache."""

    name: str  # Name of the loader for ``--against``
    images_per_second: float = 0.0  # Rate of the epoch
    first_batch_seconds: float = 0.0  # Time from the request for the epoch to its first batch
    megabytes: float = 0.0  # Megabytes that were read from the disk
    requests: int = 0  # Number of requests to the disk
    missing: str = ""  # Reason why there are no figures; empty where there are


def measure(source: PeerSource, name: str, megabytes: int, requests: int) -> DiskEpoch:
    """Return the first epoch of a loader from the limited disk."""
    with throttled_disk(source.scratch, megabytes * 1_000_000, requests) as group:
        try:
            with PeerProcess(name) as process:
                process.begin(source, PeerSettings(num_threads=len(allowed_cores())))
                written = [path for path in (source.scratch / name).rglob("*") if path.is_file()]
                evict([*source.shards, *written])
                group.add(sorted(process_tree(process.pid)))
                epoch = process.ask("warm_up")
                read, count = group.read()
        except PeerGone as reason:
            return DiskEpoch(name, missing=str(reason))
    rate = epoch["images"] / epoch["seconds"]
    return DiskEpoch(name, rate, epoch["first_batch_seconds"], read / 1e6, count)


def _cells(one: DiskEpoch) -> list[str]:
    rate, first = f"{one.images_per_second:,.0f}", f"{one.first_batch_seconds:.2f} s"
    return [rate, first, f"{one.megabytes:,.0f}", f"{one.requests:,}"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = make_part_parser(__doc__, _AGAINST, "dataset")
    parser.add_argument("--megabytes", type=int, default=150, help="limit of the disk, each second")
    parser.add_argument("--requests", type=int, default=120, help="limit of the disk, each second")
    args = parser.parse_args(arguments)
    limits = {"megabytes_per_second": args.megabytes, "requests_per_second": args.requests}
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as scratch:
        source = open_source(args.dataset, Path(scratch))
        results = measure_each(
            args,
            "an epoch from the disk",
            lambda name: measure(source, name, args.megabytes, args.requests),
            records=source.records,
            **limits,
        )
    results.sort(key=lambda one: -one.images_per_second)
    print_table(("images/s", "first batch", "MB read", "requests"), results, _cells)


if __name__ == "__main__":
    main()
