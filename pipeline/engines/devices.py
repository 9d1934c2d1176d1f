"""Devices of this machine, and the device on which a loader returns its batches.

GPUs are counted by NVIDIA's management library (NVML). A process that has started CUDA, if only to count
GPUs, cannot use it after a fork, and ignores later changes of ``CUDA_VISIBLE_DEVICES``. NVML does not know
this variable, so its rules are applied here: CUDA C++ Programming Guide, "CUDA Environment Variables".
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from dataclasses import dataclass
from typing import Any, NamedTuple

from stoker.errors import ConfigError
from stoker.formats.threads import available_cores

_TEXT_LENGTH = 96  # nvml.h, NVML_DEVICE_UUID_V2_BUFFER_SIZE and NVML_DEVICE_NAME_V2_BUFFER_SIZE


@dataclass(frozen=True)
class Machine:
    """What a machine offers to a loader."""

    cores: int  # CPU cores that this process may use
    gpus: int  # NVIDIA GPUs that this process sees
    has_dali: bool  # Whether NVIDIA DALI is installed


@dataclass(frozen=True)
class BatchPlacement:
    """Where a loader returns its batches."""

    device: str | None  # "cpu" or "cuda:N"; None leaves each array where it was made
    pin_memory: bool  # Whether arrays on the CPU are made in page-locked memory


def this_machine(device: str | None) -> Machine:
    """What this machine offers for a loader's ``device``. For "cpu" the driver is not asked for GPUs."""
    return Machine(available_cores(), 0 if device == "cpu" else len(visible_gpus()), has_dali())


def has_dali() -> bool:
    """Whether DALI is installed, without importing it."""
    try:
        return importlib.util.find_spec("nvidia.dali") is not None
    except ModuleNotFoundError:
        return False


def device_name(device: Any) -> str | None:
    """Name of a device: a text, or a device of PyTorch or JAX. "cpu:0" becomes "cpu", and None stays None.

    JAX numbers a GPU among those of all processes; here it has CUDA's number in this process.
    """
    if getattr(device, "platform", None) == "gpu" and getattr(device, "local_hardware_id", None) is not None:
        return f"cuda:{device.local_hardware_id}"
    name = None if device is None else str(device)
    return "cpu" if name == "cpu:0" else name


def numbered_device(device: str | None, machine: Machine, local_rank: int) -> str | None:
    """The device that was asked for; "cuda" is the GPU ``local_rank`` modulo the number of GPUs."""
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
    """Decide where a loader returns its batches.

    Batches that are made on the CPU and wanted on a GPU go through page-locked memory if the framework can
    copy from it in the background, whatever ``pin_memory`` says.
    """
    wanted = device or (None if made_on == "cpu" else made_on)
    copied = copies_from_pinned and made_on == "cpu" and wanted not in (None, "cpu")
    return BatchPlacement(wanted, pin_memory or copied)


class Gpu(NamedTuple):
    """A GPU that this process sees."""

    number: int | None  # NVML's number; None for an instance of a partitioned GPU (MIG)
    model: str  # Such as "NVIDIA H200"; empty where NVML does not say


def visible_gpus() -> list[Gpu]:
    """The GPUs that this process sees, in CUDA's order; empty where NVML is missing or does not answer.

    NVML numbers GPUs by their PCI bus, and CUDA may begin with the fastest one. On a machine with several
    models the order is certain only with ``CUDA_DEVICE_ORDER=PCI_BUS_ID``.
    """
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return []
    if nvml.nvmlInit_v2():
        return []
    try:
        count = ctypes.c_uint(0)
        if nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)):
            return []
        uuids = [_text(nvml, "nvmlDeviceGetUUID", number) for number in range(count.value)]
        numbers = select_visible(uuids, os.environ.get("CUDA_VISIBLE_DEVICES"))
        return [Gpu(one, "" if one is None else _text(nvml, "nvmlDeviceGetName", one)) for one in numbers]
    finally:
        nvml.nvmlShutdown()


def select_visible(uuids: list[str], visible: str | None) -> list[int | None]:
    """The numbers of the GPUs that CUDA shows to a process, in its order; None for an instance (MIG)."""
    if visible is None:
        return list(range(len(uuids)))
    seen: list[int | None] = []
    for name in (part.strip() for part in visible.split(",")):
        if name.startswith("MIG-"):
            return [*seen, None]  # a process sees one instance of a partitioned GPU
        if name.startswith("GPU-"):
            matches = [number for number, uuid in enumerate(uuids) if uuid.startswith(name)]
        else:
            matches = [int(name)] if name.isdecimal() and int(name) < len(uuids) else []
        if len(matches) != 1:
            break  # CUDA ignores what follows a name that it does not know
        if matches[0] in seen:
            return []  # CUDA refuses a list that names a GPU twice
        seen.append(matches[0])
    return seen


def _text(nvml: Any, function: str, number: int) -> str:
    """What a function of NVML says about a GPU; empty where it fails."""
    device = ctypes.c_void_p()
    text = ctypes.create_string_buffer(_TEXT_LENGTH)
    if nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(number), ctypes.byref(device)):
        return ""
    failed = getattr(nvml, function)(device, text, ctypes.c_uint(_TEXT_LENGTH))
    return "" if failed else text.value.decode()
