"""Counts of threads, files and memory that a loader could leave behind, for tests of many loaders."""

from __future__ import annotations

import gc
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path


def entries(folder: str) -> int:
    return len(list(Path(folder).iterdir()))


def tasks() -> int:
    """Count all threads of the process except those of Arrow's allocator, which can start at any time."""
    count = 0
    for path in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # the thread has ended
            count += not (path / "comm").read_text().startswith("jemalloc")
    return count


def left() -> dict[str, int]:
    """Count the things that a loader could leave behind in its process."""
    with Path("/proc/self/statm").open() as file:
        resident = int(file.read().split()[1]) >> 8
    shared = sum(path.name.startswith("stoker") for path in Path("/dev/shm").iterdir())
    return {
        "threads": threading.active_count(),
        "tasks": tasks(),
        "descriptors": entries("/proc/self/fd"),
        "shared": shared,
        "temporary": entries(tempfile.gettempdir()),
        "MiB": resident,
    }


def settled(before: dict[str, int] | None = None) -> dict[str, int]:
    """Return :func:`left` after threads that are ending have ended."""
    end = time.monotonic() + (60 if before else 0.5)
    while time.monotonic() < end:
        gc.collect()
        now = left()
        if before and all(now[name] <= before[name] for name in before if name != "MiB"):
            break
        time.sleep(0.01)
    return left()
