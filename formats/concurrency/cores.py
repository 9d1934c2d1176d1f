"""The number of threads to use; the default is the number of cores that this process may use."""

from __future__ import annotations

import os
from operator import index
from typing import SupportsIndex

from stoker.errors import ConfigError

_MOST = 4096
_GROUPS = "/sys/fs/cgroup"
_QUOTA_FILES = (
    (f"{_GROUPS}/cpu.max",),  # version 2 of control groups
    *(  # version 1
        (f"{_GROUPS}/{name}/cpu.cfs_quota_us", f"{_GROUPS}/{name}/cpu.cfs_period_us")
        for name in ("cpu", "cpu,cpuacct")
    ),
)


def available_cores() -> int:
    """Return the number of cores in the process's affinity mask, limited by its control group's quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = (quota // period for quota, period in map(_quota, _QUOTA_FILES) if quota > 0 and period > 0)
    return max(1, min([cores, *quotas]))


def _quota(files: tuple[str, ...]) -> tuple[int, int]:
    """Return a group's microseconds of CPU time in each period, and the period; 0, 0 without a limit."""
    words: list[str] = []
    try:
        for name in files:
            with open(name) as file:  # noqa: PTH123 - a kernel file, read as one line
                words += file.read().split()
        quota, period = (int(word) for word in words)
    except (OSError, ValueError):  # the quota of version 2 may be "max"
        return 0, 0
    return quota, period


def check_threads(num_threads: SupportsIndex | None, default: int | None = None) -> int:
    """Return a number of threads: ``num_threads``, or else ``default``, or else the available cores."""
    if num_threads is None:
        return available_cores() if default is None else default
    is_integer = isinstance(num_threads, SupportsIndex) and not isinstance(num_threads, bool)
    number = index(num_threads) if is_integer else 0
    if not 1 <= number <= _MOST:
        raise ConfigError(f"num_threads must be an integer from 1 to {_MOST}, not {num_threads!r}")
    return number
