"""CPU time and memory of a process and its descendants, from ``/proc`` of Linux."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """CPU time and memory of a tree of processes."""

    cpu_seconds: float  # User and system time of the running processes and of the children they waited for
    peak_rss: int  # Bytes, the sum of the largest resident sets of the running processes


def usage_of_tree(root: int) -> Usage:
    """Return the usage of process ``root`` and its descendants, without those that end meanwhile."""
    stats = _stats()
    members = _tree(root, stats)
    seconds = sum(int(value) for pid in members for value in stats.get(pid, [])[11:15]) / _TICKS
    if (own := os.getpid()) in members:  # the kernel's ticks are of 10 ms
        seconds += time.process_time() - sum(map(int, stats[own][11:13])) / _TICKS
    return Usage(cpu_seconds=seconds, peak_rss=sum(map(peak_rss, members)))


def peak_rss(pid: int) -> int:
    """Bytes of the largest resident set of a process since its program began; 0 if it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def unshared_memory(root: int) -> int:
    """Return the bytes that process ``root`` and its descendants hold, without pages of mapped files.

    It is the sum of ``Pss_Anon`` and ``Pss_Shmem`` of ``/proc/PID/smaps_rollup``: a page that several
    processes share counts once.
    """
    return sum(map(_unshared, process_tree(root)))


def process_tree(root: int) -> set[int]:
    """Return the numbers of process ``root`` and of its descendants."""
    return _tree(root, _stats())


def _stats() -> dict[int, list[str]]:
    """Return the fields of ``/proc/PID/stat`` after the command, by process (proc(5))."""
    stats = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                # The command may contain spaces and brackets; the numbers follow its last bracket.
                stats[int(entry.name)] = (entry / "stat").read_text().rpartition(")")[2].split()
    return stats


def _unshared(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:")))


def _tree(root: int, stats: Mapping[int, list[str]]) -> set[int]:
    members = {root}
    while children := {pid for pid, fields in stats.items() if int(fields[1]) in members} - members:
        members |= children
    return members
