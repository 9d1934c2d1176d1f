"""Writing the files of each loader: images a second, processor time and size.

    python -m stoker.benchmarks.comparison.parts.conversion DATASET [--against ffcv,webdataset,...]

Every loader writes the same JPEGs with its own tools, without a change of their bytes. Stoker converts a
folder of loose files, which it checks; the others get the bytes from the page cache by position. Loose files
are written for comparison.
"""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from stoker.benchmarks.comparison.parts.documents import make_part_parser, report, write_document
from stoker.benchmarks.comparison.runner import PeerGone, PeerProcess
from stoker.benchmarks.comparison.sources import open_source
from stoker.benchmarks.peers import TITLES
from stoker.benchmarks.peers.base import PeerSettings
from stoker.benchmarks.peers.loose_files import write_files
from stoker.benchmarks.report.machine import allowed_cores

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stoker.benchmarks.peers.base import PeerSource

__all__ = ["Conversion", "main", "measure"]

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
    """What it takes to write the files of one loader, each a median over the rounds.

    Attributes:
        name: Name of the loader for ``--against``.
        images_per_second: Images by the clock.
        cpu_seconds_per_1000: Processor time of all processes for a thousand images.
        bytes_over_jpegs: Bytes of the files over those of the JPEGs.
        missing: Reason why there are no figures; empty where there are.
    """

    name: str
    images_per_second: float = 0.0
    cpu_seconds_per_1000: float = 0.0
    bytes_over_jpegs: float = 0.0
    missing: str = ""


def measure(source: PeerSource, name: str, payload_bytes: int, rounds: int) -> Conversion:
    """Return what it takes to write the files of a loader.

    Args:
        source: The samples; files of the loader go into folders of ``source.scratch``.
        name: Name of the loader, see ``peers.PEERS``.
        payload_bytes: Bytes of all JPEGs.
        rounds: Number of times that the files are written, each by a new process.
    """
    written: list[dict[str, Any]] = []
    cores = allowed_cores()
    settings = asdict(PeerSettings(num_threads=len(cores)))
    for _ in range(rounds):
        with (
            tempfile.TemporaryDirectory(dir=source.scratch) as scratch,
            PeerProcess(name, cores, len(cores)) as process,
        ):
            own = replace(source, scratch=Path(scratch))
            try:
                process.ask("import")
                written.append(process.ask("write", source=own.to_json(), settings=settings))
            except PeerGone as reason:
                return Conversion(name, missing=str(reason))
    median = statistics.median
    return Conversion(
        name,
        source.records / median(one["write_seconds"] for one in written),
        1000 * median(one["write_cpu_seconds"] for one in written) / source.records,
        median(one["written_bytes"] for one in written) / payload_bytes,
    )


def _table(found: Sequence[Conversion]) -> Table:
    table = Table("loader", "images/s", "CPU s per 1,000", "bytes over JPEGs", "", box=None)
    for one in sorted(found, key=lambda one: -one.images_per_second):
        cells = [f"{one.images_per_second:,.0f}", f"{one.cpu_seconds_per_1000:.2f}"]
        cells.append(f"{one.bytes_over_jpegs:.3f}")
        table.add_row(TITLES[one.name], *([""] * 3 if one.missing else cells), one.missing)
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = make_part_parser(__doc__, _AGAINST)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(arguments)
    found: list[Conversion] = []
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as scratch:
        source = open_source(given.dataset, Path(scratch))
        folder = write_files(source)
        size = sum(path.stat().st_size for path in folder.rglob("*.jpg"))
        for name in given.against:
            report(f"{TITLES[name]}: writing its files")
            own = replace(source, dataset=folder) if name == "stoker-conversion" else source
            found.append(measure(own, name, size, given.rounds))
            write_document(given.json, found, records=source.records, rounds=given.rounds)
    Console().print(_table(found))


if __name__ == "__main__":
    main()
