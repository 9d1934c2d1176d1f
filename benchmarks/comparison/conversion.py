"""Writing the files of each loader: images a second, processor time and size.

    python -m stoker.benchmarks.comparison.conversion DATASET [--against ffcv,webdataset,...]

Every loader writes the same JPEGs with its own tools, without a change of their bytes. Stoker converts a
folder of loose files, which it checks; the others get the bytes from the page cache by position. Loose files
are written for comparison.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..measuring import allowed_cores
from ..peers.base import PeerSettings, PeerSource
from ..peers.stoker import write_files
from .runner import PeerGone, PeerProcess
from .sources import open_source
from .text import make_part_parser, measure_each, print_table

_AGAINST = (
    "stoker-conversion",
    "torch-files",
    "ffcv",
    "webdataset",
    "litdata",
    "mosaic-streaming",
    "grain",
    "hf-datasets",
    "hf-streaming",
    "ray-data",
)


@dataclass(frozen=True)
class Conversion:
    """What it takes to write the files of one loader, each a median over the rounds."""

    name: str  # Name of the loader for ``--against``
    images_per_second: float = 0.0  # Images by the clock
    cpu_seconds_per_1000: float = 0.0  # Processor time of all processes for a thousand images
    bytes_over_jpegs: float = 0.0  # Bytes of the files over those of the JPEGs
    missing: str = ""  # Reason why there are no figures; empty where there are


def measure(source: PeerSource, name: str, payload_bytes: int, rounds: int) -> Conversion:
    """Return what it takes to write the files of a loader."""
    written: list[dict[str, Any]] = []
    settings = asdict(PeerSettings(num_threads=len(allowed_cores())))
    for _ in range(rounds):
        with (
            tempfile.TemporaryDirectory(dir=source.scratch) as scratch,
            PeerProcess(name) as process,
        ):
            in_scratch = replace(source, scratch=Path(scratch))
            try:
                process.ask("import")
                written.append(process.ask("write", source=in_scratch.to_json(), settings=settings))
            except PeerGone as reason:
                return Conversion(name, missing=str(reason))
    median = statistics.median
    return Conversion(
        name,
        source.records / median(one["write_seconds"] for one in written),
        1000 * median(one["write_cpu_seconds"] for one in written) / source.records,
        median(one["written_bytes"] for one in written) / payload_bytes,
    )


def _cells(one: Conversion) -> list[str]:
    rate, cpu = f"{one.images_per_second:,.0f}", f"{one.cpu_seconds_per_1000:.2f}"
    return [rate, cpu, f"{one.bytes_over_jpegs:.3f}"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = make_part_parser(__doc__, _AGAINST, "dataset", rounds=3)
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as scratch:
        source = open_source(args.dataset, Path(scratch))
        folder = write_files(source)
        size = sum(path.stat().st_size for path in folder.rglob("*.jpg"))
        loose = replace(source, dataset=folder)
        results = measure_each(
            args,
            "writing its files",
            lambda name: measure(loose if name == "stoker-conversion" else source, name, size, args.rounds),
            records=source.records,
            rounds=args.rounds,
        )
    results.sort(key=lambda one: -one.images_per_second)
    print_table(("images/s", "CPU s per 1,000", "bytes over JPEGs"), results, _cells)


if __name__ == "__main__":
    main()
