"""The table of engines, with a row for each; loaders choose an engine from it and make it.

A new engine is a module with a class that fulfils :class:`~stoker.pipeline.engines.base.Engine`, and a row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from stoker.errors import ConfigError

from ..execution.ranks import Process
from .base import Engine, EngineSettings
from .dali.engine import DaliEngine
from .devices import BatchPlacement, Machine, choose_placement, numbered_device
from .native import PIXELS_DTYPE, PIXELS_LAYOUT, NativeEngine, UnfinishedEngine
from .native_channels import ChannelEngine
from .reference import ReferenceEngine


@dataclass(frozen=True)
class EngineRow:
    """One engine."""

    name: str  # Value of the loader's argument ``engine``
    executes: frozenset[str] | None  # What it executes of :attr:`ImagePlan.needs`; None for everything
    make: Callable[[EngineSettings], Engine]  # Makes the engine; raises what the engine's class says
    # Batches in flight that keep the engine busy, from its threads and the samples of a batch
    depth: Callable[[int, int], int]
    # Whether it also runs :attr:`ImagePlan.last_custom_steps`, in Python
    runs_last_custom_steps: bool = False


def make_engine(name: str, settings: EngineSettings) -> Engine:
    """Make the engine ``name``; the caller closes it."""
    return ENGINES[name].make(settings)


def _make_native(settings: EngineSettings) -> Engine:
    form = settings.image_format
    if form.is_deep:
        return ChannelEngine(settings)
    if not settings.unfinished:
        return NativeEngine(settings)
    pixels = replace(form, dtype=PIXELS_DTYPE, layout=PIXELS_LAYOUT)
    return UnfinishedEngine(NativeEngine(replace(settings, image_format=pixels)), form)


def _two_samples_a_thread(threads: int, batch_size: int) -> int:
    """Batches of two samples a thread, from two."""
    return max(2, -(-2 * threads // batch_size))


def _four_batches(threads: int, batch_size: int) -> int:
    """Four: with two, DALI's threads idle a twelfth of the time, as an operator waits for its last sample."""
    return 4


ENGINES = {
    row.name: row
    for row in (
        EngineRow("native", NativeEngine.executes, _make_native, _two_samples_a_thread, True),
        EngineRow("dali", DaliEngine.executes, DaliEngine, _four_batches),
        EngineRow("reference", ReferenceEngine.executes, ReferenceEngine, _two_samples_a_thread),
    )
}
"""All engines by name."""


_ON_CPU = ("native", "reference")
"""Engines that run on any machine, the fastest first."""


@dataclass(frozen=True)
class ExecutionPlan:
    """What a loader of images runs on."""

    engine: str  # Name of the engine, a key of :data:`~stoker.pipeline.engines.registry.ENGINES`
    engine_device: str  # Where the engine leaves images, "cpu" or "cuda:N"
    placement: BatchPlacement  # Where batches are handed out
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
    fastest: Callable[[tuple[str, ...], str], str] | None = None,
) -> ExecutionPlan:
    """Decide what a loader of images runs on.

    1. Where no device is named, and the framework cannot hold arrays on the GPUs that there are, batches are
       wanted on the CPU.
    2. The engine and its device are those of :func:`choose_engine`. Where "auto" has a choice of several
       engines for a GPU, batches are handed out there, and ``fastest`` chooses.
    3. Batches are placed as :func:`~stoker.pipeline.engines.devices.choose_placement` says.
    4. Threads are those asked for, or else this rank's share of the machine's cores.
    5. The engine holds as many batches as keep its threads busy, at most ``prefetch``.
    """
    if device is None and machine.gpus and not framework_sees_gpu():
        device = "cpu"
    gpu = numbered_device(device or "cuda", machine, ranks.local_rank) if machine.gpus else None
    able = _engines_for_gpu(needs, machine) if engine == "auto" and gpu and gpu != "cpu" else ()
    if len(able) > 1 and gpu and fastest:
        engine, device = fastest(able, gpu), gpu
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

    - "native" and "reference" run on the CPU.
    - "dali" runs on the device that is named, else on this rank's GPU, else on the CPU.
    - "auto" is "dali" on a GPU, unless the CPU is named, there is no GPU or no DALI, or DALI does not execute
      what the transforms need; then it is "native", and where that does not execute them "reference". A
      loader may measure and take "native" instead, see :func:`plan_execution`.
    """
    if engine not in ("auto", *ENGINES):
        known = "', '".join(("auto", *ENGINES))
        raise ConfigError(f"engine must be one of '{known}', found {engine!r}")
    wanted = numbered_device(device, machine, local_rank)
    on_gpu = machine.gpus > 0 and (wanted or "cuda").startswith("cuda")
    gpu = wanted or (f"cuda:{local_rank % machine.gpus}" if on_gpu else "cpu")
    if engine == "auto":
        if on_gpu and machine.has_dali and executes("dali", needs):
            return "dali", gpu
        return next(name for name in _ON_CPU if executes(name, needs, last_custom)), "cpu"
    check_needs(engine, needs, last_custom)
    return engine, gpu if on_gpu and engine not in _ON_CPU else "cpu"


def _engines_for_gpu(needs: frozenset[str], machine: Machine) -> tuple[str, ...]:
    """The engines that "auto" may take for batches on a GPU; none without DALI, which would be the first."""
    if not machine.has_dali or not executes("dali", needs):
        return ()
    return tuple(name for name in ("dali", "native") if executes(name, needs))


def executes(engine: str, needs: frozenset[str], last_custom: frozenset[str] = frozenset()) -> bool:
    """Whether the engine executes all of ``needs``; see :func:`plan_execution`."""
    return not _missing(engine, needs, last_custom)


def slow_needs(needs: frozenset[str], last_custom: frozenset[str]) -> tuple[str, ...]:
    """Those of ``needs`` that no engine but the slow reference executes."""
    return tuple(sorted(_missing("native", needs, last_custom)))


_MEANINGS = {
    "composition": "images of several samples (Mosaic, DetectionMixUp, CopyPaste)",
    "direct": "crops of objects (ObjectCrop)",
}
"""Needs whose names are not those of their transforms, in a user's words."""


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
    row = ENGINES[engine]
    if row.executes is None:
        return frozenset()
    return needs - row.executes - (last_custom if row.runs_last_custom_steps else frozenset())
