"""The table of engines, and the choice of an engine and of devices for a loader.

A new engine is a module that has ``EXECUTES``, the parts of :attr:`ImagePlan.needs` that it executes, and
``make_engine(settings)``, which returns an :class:`~stoker.pipeline.engines.base.Engine`; and a row here.

GPUs are counted by NVIDIA's management library (NVML). A process that has started CUDA, if only to count
GPUs, cannot use it after a fork, and ignores later changes of ``CUDA_VISIBLE_DEVICES``. NVML does not know
this variable, so its rules are applied here: CUDA C++ Programming Guide, "CUDA Environment Variables".
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from stoker.arguments import one_of
from stoker.errors import ConfigError
from stoker.formats.threads import available_cores

from ..execution.ranks import Process
from .base import Engine, EngineSettings


@dataclass(frozen=True)
class EngineRow:
    module: str  # Its module in this folder, imported at the first use
    depth: int | None = None  # Batches in flight that keep it busy; None for two samples a thread
    runs_last_custom_steps: bool = False  # Whether it also runs ``ImagePlan.last_custom_steps``, in Python


ENGINES = {
    "native": EngineRow("native", runs_last_custom_steps=True),
    # With two batches DALI's threads idle a twelfth of the time, as an operator waits for its last sample.
    "dali": EngineRow("dali.engine", depth=4),
    "reference": EngineRow("reference"),
}
"""All engines, by the values of the loader's argument ``engine``."""


@dataclass(frozen=True)
class ExecutionPlan:
    """What a loader of images runs on."""

    engine: str  # Name of the engine, a key of :data:`ENGINES`
    engine_device: str  # Where the engine leaves images, "cpu" or "cuda:N"
    placement: BatchPlacement  # Where the loader returns batches
    num_threads: int  # Threads of the engine
    depth: int  # Batches that are in flight in the engine at once


def plan_execution(
    engine: str,
    device: str | None,
    *,
    needs: frozenset[str],
    last_custom: frozenset[str] = frozenset(),
    machine: Machine,
    ranks: Process,
    framework_sees_gpu: Callable[[], bool],
    copies_from_pinned: bool,
    pin_memory: bool,
    num_threads: int | None,
    batch_size: int,
    prefetch: int,
) -> ExecutionPlan:
    """Decide what a loader of images runs on, without making it."""
    if engine == "dali" and device is None and machine.gpus and not framework_sees_gpu():
        device = "cpu"
    name, engine_device = choose_engine(
        engine, device, needs, machine, ranks.local_rank, last_custom=last_custom
    )
    placement = choose_placement(
        numbered_device(device, machine, ranks.local_rank),
        made_on=engine_device,
        pin_memory=pin_memory,
        copies_from_pinned=copies_from_pinned,
    )
    threads = num_threads or max(1, machine.cores // ranks.local_world_size)
    depth = ENGINES[name].depth or max(2, -(-2 * threads // batch_size))
    return ExecutionPlan(name, engine_device, placement, threads, min(prefetch, depth))


def choose_engine(
    engine: str,
    device: str | None,
    needs: frozenset[str],
    machine: Machine,
    local_rank: int,
    *,
    last_custom: frozenset[str] = frozenset(),
) -> tuple[str, str]:
    """Choose an engine and the device on which it leaves images."""
    # "native" and "reference" run on the CPU. "dali" runs on ``device``, else on this rank's GPU, else on the
    # CPU. "auto" is the first of these that executes what the transforms need: "dali", if ``device`` is a GPU
    # and DALI is installed; "native"; "reference".
    one_of("engine", engine, ("auto", *ENGINES))
    wanted = numbered_device(device, machine, local_rank)
    if engine == "auto":
        with_dali = machine.has_dali and wanted not in (None, "cpu")
        able = ("dali", "native", "reference") if with_dali else ("native", "reference")
        engine = next(name for name in able if executes(name, needs, last_custom))
    else:
        check_needs(engine, needs, last_custom)
    if engine != "dali":
        return engine, "cpu"
    return engine, wanted or (f"cuda:{local_rank % machine.gpus}" if machine.gpus else "cpu")


def make_engine(name: str, settings: EngineSettings) -> Engine:
    """Make the engine ``name``; the caller closes it."""
    other_channels = name == "native" and settings.image_format.is_deep
    engine: Engine = _import("native_channels" if other_channels else name).make_engine(settings)
    return engine


def executes(engine: str, needs: frozenset[str], last_custom: frozenset[str] = frozenset()) -> bool:
    """Whether the engine executes all of ``needs``, the custom steps that come last included."""
    return not _missing(engine, needs, last_custom)


def slow_needs(needs: frozenset[str], last_custom: frozenset[str]) -> tuple[str, ...]:
    """Those of ``needs`` that only the slow reference executes."""
    return tuple(sorted(_missing("native", needs, last_custom)))


_MEANINGS = {
    "composition": "images of several samples (Mosaic, DetectionMixUp, CopyPaste)",
    "direct": "crops of objects (ObjectCrop)",
    "image_size": "batches whose images differ in size (padded, ragged)",
    "sizes by step": "batches of different sizes (RandomSizes, AspectBuckets)",
}
"""Needs in a user's words, where a need has another name than its transform."""


def check_needs(engine: str, needs: frozenset[str], last_custom: frozenset[str] = frozenset()) -> None:
    """Check that an engine executes what transforms need."""
    if missing := _missing(engine, needs, last_custom):
        is_fast = executes("native", needs, last_custom)
        able = "'native' executes" if is_fast else "'reference' (slowly) executes"
        raise ConfigError(
            f"engine={engine!r} does not execute what the transforms need: "
            f"{', '.join(_MEANINGS.get(name, name) for name in sorted(missing))}",
            hint=f"{able} it, and engine='auto' takes one that does.",
        )


def _missing(engine: str, needs: frozenset[str], last_custom: frozenset[str]) -> frozenset[str]:
    known: frozenset[str] = needs if engine == "reference" else _import(engine).EXECUTES
    return needs - known - (last_custom if ENGINES[engine].runs_last_custom_steps else frozenset())


def _import(name: str) -> Any:
    module = ENGINES[name].module if name in ENGINES else name
    return importlib.import_module(f"stoker.pipeline.engines.{module}")


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
    """Name of a device: a text, or a device of PyTorch or JAX. "cpu:0" becomes "cpu", and None stays None."""
    # JAX numbers a GPU among those of all processes; here it has CUDA's number in this process.
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
    """Decide where a loader returns its batches."""
    # Batches that are made on the CPU and wanted on a GPU go through page-locked memory if the framework can
    # copy from it in the background, whatever ``pin_memory`` says.
    wanted = device or (None if made_on == "cpu" else made_on)
    copied = copies_from_pinned and made_on == "cpu" and wanted not in (None, "cpu")
    return BatchPlacement(wanted, pin_memory or copied)


class Gpu(NamedTuple):
    """A GPU that this process sees."""

    number: int | None  # NVML's number; None for an instance of a partitioned GPU (MIG)
    model: str  # Such as "NVIDIA H200"; empty where NVML does not say


def visible_gpus() -> list[Gpu]:
    """The GPUs that this process sees, in CUDA's order; empty where NVML is missing or does not answer."""
    # NVML numbers GPUs by their PCI bus, and CUDA may begin with the fastest one. On a machine with several
    # models the order is certain only with ``CUDA_DEVICE_ORDER=PCI_BUS_ID``.
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
