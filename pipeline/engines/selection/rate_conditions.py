"""The parts of a machine that decide the rates of engines; cached rates of another machine do not count."""

from __future__ import annotations

import importlib.metadata
import platform
from contextlib import suppress
from pathlib import Path

from ..devices import gpu_model

_BUILDS_OF_DALI = ("nvidia-dali-cuda120", "nvidia-dali-cuda130")


def machine_conditions(device: str) -> dict[str, str]:
    """Models of the processor and of the GPU, and the version of DALI, by name; empty where unknown."""
    number = int(device.partition(":")[2] or 0)
    return {"cpu": _cpu_model(), "gpu": gpu_model(number), "dali_version": _dali_version()}


def _cpu_model() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _dali_version() -> str:
    for build in _BUILDS_OF_DALI:
        with suppress(importlib.metadata.PackageNotFoundError):
            return f"{build} {importlib.metadata.version(build)}"
    return ""
