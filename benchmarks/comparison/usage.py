"""Processor time and memory of a process and its descendants, from Linux's ``/proc``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Usage", "usage_of_tree"]

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """What a tree of processes has used so far.

    Attributes:
        cpu_seconds: User and system time of the living processes and of the children they waited for.
        peak_rss: Bytes, the sum of every living process's highest resident set. Pages that several
            processes share count once a process, and pages of mapped files count too.
    """

    cpu_seconds: float
    peak_rss: int


def usage_of_tree(root: int) -> Usage:
    """Usage of process ``root`` and all processes below it; those that end meanwhile are left out."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # The command may contain spaces and brackets; the numbers follow its last bracket (proc(5)).
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            ticks[int(entry.name)] = sum(int(value) for value in fields[11:15])
    members = {root}
    while found := {pid for pid, parent in parents.items() if parent in members} - members:
        members |= found
    return Usage(
        cpu_seconds=sum(ticks.get(pid, 0) for pid in members) / _TICKS,
        peak_rss=sum(_peak_rss(pid) for pid in members),
    )


def _peak_rss(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0
