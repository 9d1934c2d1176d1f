"""The parts of an epoch of planned batches in which the number of ranks has changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from stoker.errors import CheckpointError

__all__ = ["History", "checked_history", "resumed"]

History = tuple[tuple[int, int], ...]
"""(world size, steps done) of each part of an epoch that was resumed with another number of ranks."""


def resumed(state: Mapping[str, Any], position: int, world_size: int) -> tuple[History, bool]:
    """Return the parts before the rest of an epoch, and whether that rest has another plan.

    Args:
        state: A state with the ranks that it was saved on, ``world_size``, and the ``history`` before them.
        position: Steps that these ranks have done.
        world_size: Number of ranks that go on.

    Raises:
        CheckpointError: The state's parts are no parts of an epoch.
    """
    history = checked_history([*state["history"], [state["world_size"], position]])
    saved, done = history[-1]
    if saved == world_size:
        return history[:-1], False
    return (history if done else history[:-1]), True


def checked_history(parts: Sequence[Any]) -> History:
    """The parts of an epoch as a state records them.

    Raises:
        CheckpointError: A part is not two integers, ranks from 1 and steps from 0.
    """
    history = tuple(tuple(part) for part in parts)
    for part in history:
        if len(part) != 2 or any(type(number) is not int or number < 0 for number in part) or part[0] < 1:
            raise CheckpointError(
                f"a part of an epoch is (ranks, steps), found {part!r}",
                hint="Pass what state_dict() returned.",
            )
    return cast("History", history)
