"""Reads from a disk: files leave the page cache, and control groups of Linux set a limit, for root only."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stoker.errors import ConfigError

_FIRST, _SECOND = Path("/sys/fs/cgroup/blkio"), Path("/sys/fs/cgroup")
"""Folders of the first and the second version of control groups."""
_SECONDS = 5.0


@dataclass(frozen=True)
class ThrottledGroup:
    """A control group whose reads are limited."""

    folder: Path  # Folder of the group
    device: str  # Numbers of the disk, "MAJOR:MINOR"

    def add(self, processes: Sequence[int]) -> None:
        for pid in processes:
            (self.folder / "cgroup.procs").write_text(str(pid))

    def read(self) -> tuple[int, int]:
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


def evict(paths: Sequence[Path]) -> None:
    """Drop files from the page cache, except pages that another process has mapped."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)  # pages that are not yet written back are not dropped
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
