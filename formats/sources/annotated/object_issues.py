"""Objects that are left out while annotations are read, and the checks that they fail."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from ..listing import Skip

_FARTHEST = 1e18  # pixels, or shares of an image; the square, an area, still is a float32


class BadObjectError(Exception):
    """The reason to leave an object out; ``args`` are the reason and the detail of a ``Skip``."""


@dataclass
class Issues:
    """Objects that are left out, by the number of their image, because its name may not be known yet."""

    noted: list[tuple[int, str, str]] = field(default_factory=list)

    def note(self, image: int, what: str, reason: str, detail: str = "") -> None:
        """Note that ``what``, such as "annotation 7", is left out."""
        self.noted.append((image, reason, f"{what}: {detail}" if detail else what))

    def skips(self, names: Sequence[str]) -> list[Skip]:
        """The objects as skips; ``names`` are those of the images, by number."""
        return [Skip(names[image], reason, detail) for image, reason, detail in self.noted]


def numbers(values: Any) -> TypeGuard[list[float]]:
    """Whether a value is a list of finite numbers in the range of coordinates."""
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
    """The box, if its coordinates are in range and it has an area."""
    box = (left, top, right, bottom)
    if not all(abs(value) < _FARTHEST for value in box):
        raise BadObjectError("object without a box", f"{_text(box)}")
    if not (right > left and bottom > top):
        raise BadObjectError("object without an area", f"box {_text(box)}")
    return box


def _text(box: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in box)
