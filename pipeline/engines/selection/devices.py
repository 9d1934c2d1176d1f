"""Devices of this machine, and the device on which a loader hands out its batches."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

from stoker.errors import ConfigError
from stoker.formats.threads import available_cores

from .gpus import gpu_count


@dataclass(frozen=True)
class Machine:
    """What a machine offers to a loader."""

    cores: int  # CPU cores that this process may use
    gpus: int  # NVIDIA GPUs that this process sees
    has_dali: bool  # Whether NVIDIA DALI is installed


@dataclass(frozen=True)
class BatchPlacement:
    """Where a loader hands out its batches."""

    device: str | None  # "cpu" or "cuda:N"; None leaves each array where it was made
    pin_memory: bool  # Whether arrays on the CPU are made in page-locked memory


def this_machine(device: str | None) -> Machine:
    """What the operating system and NVIDIA's driver say that this machine offers for a loader's ``device``.

    CUDA is not started. For "cpu" there are no GPUs, and the driver is not asked.
    """
    return Machine(available_cores(), 0 if device == "cpu" else gpu_count(), has_dali())


def has_dali() -> bool:
    """Whether DALI is installed, without importing it."""
    try:
        return importlib.util.find_spec("nvidia.dali") is not None
    except ModuleNotFoundError:
        return False


def device_name(device: Any) -> str | None:
    """Name of a device: a text, or a device of PyTorch or JAX. "cpu:0" becomes "cpu", and None stays None.

    The text of a GPU of JAX has its number among the GPUs of all processes. Here it has the number of CUDA in
    this process.
    """
    if getattr(device, "platform", None) == "gpu" and getattr(device, "local_hardware_id", None) is not None:
        return f"cuda:{device.local_hardware_id}"
    name = None if device is None else str(device)
    return "cpu" if name == "cpu:0" else name


def numbered_device(device: str | None, machine: Machine, local_rank: int) -> str | None:
    """The device as it was asked for, with a number where "cuda" has none.

    "cuda" alone is the GPU whose number is ``local_rank`` modulo the number of GPUs.
    """
    device_type, _, number = (device or "").partition(":")
    if device_type not in ("", "cpu", "cuda") or (number and not number.isdigit()):
        raise ConfigError(f"device must be 'cpu', 'cuda' or 'cuda:N', found {device!r}")
    if device_type == "cuda" and machine.gpus <= int(number or 0):
        raise ConfigError(
            f"device {device!r} was asked for and {machine.gpus} GPUs are visible",
            hint="Name one of them, or leave device out.",
        )
    return f"cuda:{local_rank % machine.gpus}" if device == "cuda" else device


def choose_placement(
    device: str | None, *, made_on: str, pin_memory: bool, copies_from_pinned: bool
) -> BatchPlacement:
    """Decide where a loader hands out its batches.

    Batches that are made on the CPU and wanted on a GPU go through page-locked memory if the framework can
    copy from it in the background, whatever ``pin_memory`` says.
    """
    wanted = device or (None if made_on == "cpu" else made_on)
    copied = copies_from_pinned and made_on == "cpu" and wanted not in (None, "cpu")
    return BatchPlacement(wanted, pin_memory or copied)
