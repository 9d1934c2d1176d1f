"""The parts of an epoch of planned batches in which the number of ranks has changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from stoker.errors import CheckpointError

History = tuple[tuple[int, int], ...]
"""(world size, steps done) of each part of an epoch that was resumed with another number of ranks."""


def resumed(state: Mapping[str, Any], position: int, world_size: int) -> tuple[History, bool]:
    """Return the parts before the rest of an epoch, and whether that rest has another plan."""
    history = checked_history([*state["history"], [state["world_size"], position]])
    saved, done = history[-1]
    if saved == world_size:
        return history[:-1], False
    return (history if done else history[:-1]), True


def checked_history(parts: Sequence[Any]) -> History:
    """The parts of an epoch as a state records them."""
    history = tuple(tuple(part) for part in parts)
    for part in history:
        if len(part) != 2 or any(type(number) is not int or number < 0 for number in part) or part[0] < 1:
            raise CheckpointError(
                f"a part of an epoch is (ranks, steps), found {part!r}",
                hint="Pass what state_dict() returned.",
            )
    return cast("History", history)
