"""Custom steps: steps that users write, and for which no engine has code.

The native engine calls custom steps that come last while it makes an image;
:mod:`stoker.pipeline.engines.selection` asks which ones these are.
"""

from __future__ import annotations

from collections.abc import Sequence

from .base import Step
from .chains import step_names


def is_custom(step: Step) -> bool:
    """Whether the class of a step names no C++ operation itself; an inherited name does not count."""
    return not vars(type(step)).get("operation")


def split_last_custom(steps: Sequence[Step]) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """Split steps into those up to the last one that is not custom, and the custom steps after it."""
    end = len(steps)
    while end and is_custom(steps[end - 1]):
        end -= 1
    return tuple(steps[:end]), tuple(steps[end:])


def last_custom_names(steps: Sequence[Step]) -> frozenset[str]:
    """Class names of the custom steps, if they all come after the other steps."""
    first, last = split_last_custom(steps)
    return step_names(last) - step_names(first)
