"""What is wrong with annotations, noted while they are read."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeGuard

from ..listing import Skip

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["BadObjectError", "Issues", "checked_box", "numbers"]

_FARTHEST = 1e18  # pixels, or sizes of an image: an area of so many squared is a float32


class BadObjectError(Exception):
    """An object is left out; ``args`` are reason and detail of a ``Skip``."""


@dataclass
class Issues:
    """Objects that are left out, by the number of their image, whose name may not be known yet."""

    noted: list[tuple[int, str, str]] = field(default_factory=list)

    def note(self, image: int, what: str, reason: str, detail: str = "") -> None:
        """Note that ``what``, such as "annotation 7", is left out."""
        self.noted.append((image, reason, f"{what}: {detail}" if detail else what))

    def skips(self, names: Sequence[str]) -> list[Skip]:
        """As they are reported: with the names of their images, by number."""
        return [Skip(names[image], reason, detail) for image, reason, detail in self.noted]


def numbers(values: Any) -> TypeGuard[list[float]]:
    """Whether something is a list of finite numbers that a coordinate may be."""
    try:
        return (
            isinstance(values, list)
            and math.isfinite(sum(values))
            and bool not in map(type, values)
            and -_FARTHEST < min(values, default=0) <= max(values, default=0) < _FARTHEST
        )
    except (TypeError, OverflowError):
        return False


def checked_box(left: float, top: float, right: float, bottom: float) -> tuple[float, float, float, float]:
    """A box with coordinates that may be meant, and an area.

    Raises:
        BadObjectError: It has not.
    """
    box = (left, top, right, bottom)
    if not all(abs(value) < _FARTHEST for value in box):
        raise BadObjectError("object without a box", f"{_text(box)}")
    if not (right > left and bottom > top):
        raise BadObjectError("object without an area", f"box {_text(box)}")
    return box


def _text(box: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in box)
