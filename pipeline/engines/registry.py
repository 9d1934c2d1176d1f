"""The table of engines, and the choice of the engine that a loader of images runs on.

A new engine is a module that has ``EXECUTES``, the parts of :attr:`ImagePlan.needs` that it executes, and
``make_engine(settings)``, which returns an :class:`~stoker.pipeline.engines.base.Engine`; and a row here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stoker.errors import ConfigError

from ..execution.ranks import Process
from .base import Engine, EngineSettings
from .devices import BatchPlacement, Machine, choose_placement, numbered_device


@dataclass(frozen=True)
class EngineRow:
    module: str  # Its module in this folder, imported at the first use
    # Batches in flight that keep the engine busy, from its threads and the samples of a batch
    depth: Callable[[int, int], int]
    runs_last_custom_steps: bool = (
        False  # Whether it also runs :attr:`ImagePlan.last_custom_steps`, in Python
    )


def _two_samples_a_thread(threads: int, batch_size: int) -> int:
    """Batches of two samples a thread, from two."""
    return max(2, -(-2 * threads // batch_size))


def _four_batches(threads: int, batch_size: int) -> int:
    """Four: with two, DALI's threads idle a twelfth of the time, as an operator waits for its last sample."""
    return 4


ENGINES = {
    "native": EngineRow("native", _two_samples_a_thread, runs_last_custom_steps=True),
    "dali": EngineRow("dali.engine", _four_batches),
    "reference": EngineRow("reference", _two_samples_a_thread),
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
    """Decide what a loader of images runs on, without making it.

    The engine holds as many batches as keep its threads busy, at most ``prefetch``.
    """
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
    depth = min(prefetch, ENGINES[name].depth(threads, batch_size))
    return ExecutionPlan(name, engine_device, placement, threads, depth)


def choose_engine(
    engine: str,
    device: str | None,
    needs: frozenset[str],
    machine: Machine,
    local_rank: int,
    *,
    last_custom: frozenset[str] = frozenset(),
) -> tuple[str, str]:
    """Choose an engine and the device on which it leaves images.

    "native" and "reference" run on the CPU. "dali" runs on ``device``, else on this rank's GPU, else on the
    CPU. "auto" is the first of these that executes what the transforms need: "dali", if ``device`` is a GPU
    and DALI is installed; "native"; "reference".
    """
    if engine not in ("auto", *ENGINES):
        known = "', '".join(("auto", *ENGINES))
        raise ConfigError(f"engine must be one of '{known}', found {engine!r}")
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
    module = _import("native_channels") if other_channels else _import(ENGINES[name].module)
    engine: Engine = module.make_engine(settings)
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
    known: frozenset[str] = needs if engine == "reference" else _import(ENGINES[engine].module).EXECUTES
    return needs - known - (last_custom if ENGINES[engine].runs_last_custom_steps else frozenset())


def _import(module: str) -> Any:
    return importlib.import_module(f"stoker.pipeline.engines.{module}")
