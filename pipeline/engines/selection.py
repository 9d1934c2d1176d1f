"""Making the engine that a loader asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stoker.errors import ConfigError

from . import devices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .base import Engine, Output

__all__ = ["check_needs", "choose_engine", "depth", "executes", "make_engine"]


def _engine_class(name: str) -> type[Any]:
    if name == "dali":
        from .dali import DaliEngine

        return DaliEngine
    if name == "reference":
        from .reference import ReferenceEngine

        return ReferenceEngine
    from .native.engine import NativeEngine

    return NativeEngine


def choose_engine(engine: str, device: str | None, local_rank: int, needs: frozenset[str]) -> tuple[str, str]:
    """An engine that executes all of ``needs``, and its device; see :func:`choose`.

    Raises:
        ConfigError: As there, or an engine that was named does not execute what the transforms need.
    """
    name, place = devices.choose(engine, device, local_rank)
    if engine == "auto" and not executes(name, needs):
        name, place = ("native" if executes("native", needs) else "reference"), "cpu"
    check_needs(name, needs)
    return name, place


def make_engine(
    name: str,
    device: str,
    files: Sequence[str],
    sizes: Sequence[int],
    output: Output,
    *,
    batch_size: int,
    **settings: Any,
) -> Engine:
    """The engine ``name`` on ``device``; ``settings`` are those that all engines have."""
    if name == "dali":
        settings |= {"device": device, "batch_size": batch_size}
    engine: Engine = _engine_class(name)(files, sizes, output, **settings)
    return engine


def depth(engine: str, threads: int, batch_size: int) -> int:
    """Batches in flight that keep an engine's threads busy."""
    if engine == "dali":
        return 4  # two left them idle for a twelfth of the time: each operator waits for its last sample
    return max(2, -(-2 * threads // batch_size))


def executes(engine: str, needs: frozenset[str]) -> bool:
    """Whether the engine executes all of ``needs``; see :attr:`ImagePlan.needs`."""
    return not _missing(engine, needs)


def check_needs(engine: str, needs: frozenset[str]) -> None:
    """ConfigError that says what the transforms need and the engine does not execute."""
    if not executes(engine, needs):
        missing = ", ".join(sorted(_missing(engine, needs)))
        raise ConfigError(
            f"engine={engine!r} does not execute what the transforms need: {missing}",
            hint=f"{_able(needs)} it, and engine='auto' takes one that does.",
        )


def _able(needs: frozenset[str]) -> str:
    """Who executes all of ``needs``, as the beginning of a sentence."""
    return "'native' executes" if executes("native", needs) else "'reference' (slowly) executes"


def _missing(engine: str, needs: frozenset[str]) -> frozenset[str]:
    known: frozenset[str] | None = _engine_class(engine).executes
    return frozenset() if known is None else needs - known
