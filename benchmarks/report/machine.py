"""The machine of a measurement, without names of hosts and users, so that results can be published."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

import stoker

_PACKAGES = ("numpy", "pillow")


def allowed_cores() -> list[int]:
    """Return the numbers of the cores that this process may run on, ascending."""
    return sorted(os.sched_getaffinity(0))


def describe(cores: list[int]) -> dict[str, Any]:
    """Return processor, cores, memory, kernel and versions, as values that JSON has."""
    return {
        "cpu": _cpu_model(),
        "cores": len(cores),
        "cores_of_machine": os.cpu_count() or 0,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "stoker": stoker.__version__,
        "versions": {package: importlib.metadata.version(package) for package in _PACKAGES},
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
