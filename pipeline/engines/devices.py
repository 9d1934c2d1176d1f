"""The GPUs that a process sees, counted by NVIDIA's management library (NVML), which starts no CUDA.

A process that has started CUDA, if only to count GPUs, cannot use it after a fork, and no longer heeds
``CUDA_VISIBLE_DEVICES``. NVML counts the GPUs of the machine and knows nothing of that variable, so its rules
are applied here: CUDA C++ Programming Guide, "CUDA Environment Variables".
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from stoker.errors import ConfigError
from stoker.formats.threads import available_cores

_TEXT_LENGTH = 96  # nvml.h, NVML_DEVICE_UUID_V2_BUFFER_SIZE and NVML_DEVICE_NAME_V2_BUFFER_SIZE


def gpu_count() -> int:
    """Number of NVIDIA GPUs that this process sees; 0 where NVML is missing or does not answer."""
    with _opened() as nvml:
        return len(_visible(nvml))


def gpu_model(number: int = 0) -> str:
    """Name of the GPU that CUDA calls ``number``, such as "NVIDIA H200"; empty where NVML does not say.

    NVML numbers GPUs by their PCI bus, and CUDA may begin with the fastest one. On a machine with several
    models the name is certain only with ``CUDA_DEVICE_ORDER=PCI_BUS_ID``.
    """
    with _opened() as nvml:
        gpus = _visible(nvml)
        gpu = gpus[number] if number < len(gpus) else None
        return _text(nvml, "nvmlDeviceGetName", gpu) if isinstance(gpu, int) else ""


def nvml_number(number: int) -> int | None:
    """NVML's number of the GPU that CUDA calls ``number``, as in :func:`gpu_model`; None for an instance."""
    with _opened() as nvml:
        gpus = _visible(nvml)
    gpu = gpus[number] if number < len(gpus) else None
    return gpu if isinstance(gpu, int) else None


@contextmanager
def _opened() -> Iterator[Any]:
    """NVML, or None where it is missing or does not start."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        yield None
        return
    if nvml.nvmlInit_v2():
        yield None
        return
    try:
        yield nvml
    finally:
        nvml.nvmlShutdown()


def visible_gpus(uuids: list[str], visible: str | None) -> list[int | str]:
    """The GPUs that CUDA shows to a process, in its order: the index of each in ``uuids``, or a MIG name."""
    if visible is None:
        return list(range(len(uuids)))
    seen: list[int | str] = []
    for name in (part.strip() for part in visible.split(",")):
        gpu = _named(name, uuids)
        if gpu is None:
            break  # CUDA ignores what follows a name that it does not know
        if gpu in seen:
            return []  # CUDA refuses a list that names a GPU twice
        seen.append(gpu)
        if isinstance(gpu, str):
            break  # a process sees one instance of a partitioned GPU
    return seen


def _named(name: str, uuids: list[str]) -> int | str | None:
    """Number of the GPU of this name, the name itself of an instance (MIG), or None for no GPU."""
    if name.startswith("MIG-"):
        return name
    if name.startswith("GPU-"):
        matches = [number for number, uuid in enumerate(uuids) if uuid.startswith(name)]
        return matches[0] if len(matches) == 1 else None
    return int(name) if name.isdecimal() and int(name) < len(uuids) else None


def _visible(nvml: Any) -> list[int | str]:
    count = ctypes.c_uint(0)
    if nvml is None or nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)):
        return []
    uuids = [_text(nvml, "nvmlDeviceGetUUID", number) for number in range(count.value)]
    return visible_gpus(uuids, os.environ.get("CUDA_VISIBLE_DEVICES"))


def _text(nvml: Any, function: str, number: int) -> str:
    """What a function of NVML says about a GPU; empty where it fails."""
    device = ctypes.c_void_p()
    text = ctypes.create_string_buffer(_TEXT_LENGTH)
    if nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(number), ctypes.byref(device)):
        return ""
    failed = getattr(nvml, function)(device, text, ctypes.c_uint(_TEXT_LENGTH))
    return "" if failed else text.value.decode()


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
