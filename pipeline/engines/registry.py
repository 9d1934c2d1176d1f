"""The table of engines, with a row for each; loaders choose an engine from it and make it.

A new engine is a module with a class that fulfils :class:`~stoker.pipeline.engines.base.Engine`, and a row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from .base import Engine, EngineSettings
from .dali.engine import DaliEngine
from .native.channel_engine import ChannelEngine
from .native.engine import NativeEngine
from .native.unfinished import PIXELS_DTYPE, PIXELS_LAYOUT, UnfinishedEngine
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
