"""Which engine and device suit this machine."""

from __future__ import annotations

import ctypes
import importlib.util
from functools import lru_cache
from typing import Any

from stoker.errors import ConfigError

__all__ = ["as_text", "choose", "gpu_count", "has_dali", "place"]


@lru_cache(maxsize=1)
def gpu_count() -> int:
    """Number of NVIDIA GPUs that this process sees; asks the driver and loads no framework."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return 0
    return count.value


def has_dali() -> bool:
    """Whether DALI is installed, without importing it."""
    try:
        return importlib.util.find_spec("nvidia.dali") is not None
    except ModuleNotFoundError:
        return False


def choose(engine: str, device: str | None, local_rank: int) -> tuple[str, str]:
    """Engine and the device it runs on.

    Args:
        engine: "auto", "native", "dali" or "reference". "auto" is dali on a GPU where both are present, else
            native.
        device: Where batches are wanted, "cpu" or "cuda:N"; None leaves it to the engine.
        local_rank: Rank on this machine, which picks the GPU when ``device`` names none.

    Raises:
        ConfigError: No such engine, or a device that is not there.
    """
    if engine not in ("auto", "native", "dali", "reference"):
        raise ConfigError(f"engine must be 'auto', 'native', 'dali' or 'reference', found {engine!r}")
    kind, _, number = (device or "").partition(":")
    if kind not in ("", "cpu", "cuda") or (number and not number.isdigit()):
        raise ConfigError(f"device must be 'cpu', 'cuda' or 'cuda:N', found {device!r}")
    if kind == "cuda" and gpu_count() <= int(number or 0):
        raise ConfigError(f"device {device!r} was asked for and {gpu_count()} GPUs are visible")
    on_cpu = engine in ("native", "reference") or kind == "cpu" or not gpu_count()
    if on_cpu or (engine == "auto" and not has_dali()):
        return ("native" if engine == "auto" else engine), "cpu"
    return "dali", place(device or "cuda", local_rank)


def as_text(device: Any) -> str | None:
    """A device as its name, which PyTorch's and JAX's have as text, also "cpu:0"; None stays None."""
    name = None if device is None else str(device)
    return "cpu" if name == "cpu:0" else name


def place(device: str, local_rank: int) -> str:
    """``device`` with its number: "cuda" alone is a GPU of this rank's own."""
    return f"cuda:{local_rank % gpu_count()}" if device == "cuda" else device
