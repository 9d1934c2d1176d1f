"""A limit on the reads of a group of processes from a disk: control groups of Linux, for root only."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stoker.errors import ConfigError

from ..measuring import allowed_cores
from ..peers.base import PeerSettings, PeerSource
from .cold import evict
from .runner import PeerGone, PeerProcess
from .sources import open_source
from .text import make_part_parser, measure_each, print_table
from .usage import process_tree

_FIRST, _SECOND = Path("/sys/fs/cgroup/blkio"), Path("/sys/fs/cgroup")
"""Folders of the first and the second version of control groups."""
_SECONDS = 5.0


@dataclass(frozen=True)
class ThrottledGroup:
    """A control group whose reads are limited."""

    folder: Path  # Folder of the group
    device: str  # Numbers of the disk, "MAJOR:MINOR"

    def add(self, processes: Sequence[int]) -> None:
        """Limit processes from now on, and those that they start."""
        for pid in processes:
            (self.folder / "cgroup.procs").write_text(str(pid))

    def read(self) -> tuple[int, int]:
        """Return the bytes and the requests that the group has read from the disk."""
        if self.folder.is_relative_to(_FIRST):
            counts = [self._count(f"blkio.throttle.{what}") for what in ("io_service_bytes", "io_serviced")]
            return counts[0], counts[1]
        for line in (self.folder / "io.stat").read_text().splitlines():
            device, *pairs = line.split()
            if device == self.device:
                values = dict(pair.split("=") for pair in pairs)
                return int(values["rbytes"]), int(values["rios"])
        return 0, 0

    def _count(self, name: str) -> int:
        for line in (self.folder / name).read_text().splitlines():
            if line.startswith(f"{self.device} Read "):
                return int(line.split()[-1])
        return 0


@contextmanager
def throttled_disk(path: Path, bytes_per_second: int, requests_per_second: int) -> Iterator[ThrottledGroup]:
    """Make a group of processes whose reads from the disk of ``path`` are limited.

    The processes of the group must have ended when the block ends.
    """
    device = _disk_of(path)
    first = (_FIRST / "blkio.throttle.read_bps_device").exists()
    group = ThrottledGroup((_FIRST if first else _SECOND) / f"stoker-bench-{os.getpid()}", device)
    try:
        if not first:
            (_SECOND / "cgroup.subtree_control").write_text("+io")
        group.folder.mkdir()
        if first:
            (group.folder / "blkio.throttle.read_bps_device").write_text(f"{device} {bytes_per_second}")
            (group.folder / "blkio.throttle.read_iops_device").write_text(f"{device} {requests_per_second}")
        else:
            limits = f"{device} rbps={bytes_per_second} riops={requests_per_second}"
            (group.folder / "io.max").write_text(limits)
    except OSError as error:
        raise ConfigError(
            f"this process cannot limit the disk {device}: {error.strerror}",
            path=group.folder,
            hint="Run as root on a machine with control groups for disks (blkio, or io of version 2).",
        ) from error
    try:
        yield group
    finally:
        _remove(group.folder)


def _remove(folder: Path) -> None:
    """Remove a group; processes that were killed leave it a moment later."""
    deadline = time.monotonic() + _SECONDS
    while (folder / "cgroup.procs").read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    folder.rmdir()


def _disk_of(path: Path) -> str:
    """Return the device numbers of the whole disk; a partition's own numbers differ."""
    number = path.stat().st_dev
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if (device / "partition").exists():
        return (device.resolve().parent / "dev").read_text().strip()
    return device.name


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
