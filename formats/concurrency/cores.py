"""The number of threads to use: by default the cores that this process may use."""

from __future__ import annotations

import os
from operator import index
from typing import SupportsIndex

from stoker.errors import ConfigError

__all__ = ["available_cores", "check_threads"]

_MOST = 4096


def available_cores() -> int:
    """Return the number of cores in the process's affinity mask, limited by its control group's quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:  # noqa: PTH123 - a kernel file, read as one line
            quota, period = file.read().split()
    except (OSError, ValueError):
        return cores
    return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))


def check_threads(given: SupportsIndex | None, default: int | None = None) -> int:
    """Return a number of threads: ``given``, or else ``default``, or else the available cores.

    Raises:
        ConfigError: ``given`` is not an integer from 1 to 4096.
    """
    if given is None:
        return available_cores() if default is None else default
    number = index(given) if isinstance(given, SupportsIndex) and not isinstance(given, bool) else 0
    if not 1 <= number <= _MOST:
        raise ConfigError(f"num_threads must be an integer from 1 to {_MOST}, not {given!r}")
    return number
