"""Names of objects on a preview: their font, their widths, and their rectangles at the boxes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import ImageFont

LETTERS = 4
"""Factor by which text is drawn larger before it is reduced, to smooth it."""
NAME_SIZE = 11
"""Size of the letters of a name, pixels of the page."""
_HEIGHT, _PAD = 15, 3


@dataclass(frozen=True)
class Name:
    """A name and the rectangle that it fills."""

    text: str  # The name, shortened to the width of the picture
    number: int  # Number of the object among those of its picture
    rectangle: tuple[float, float, float, float]  # Left, top, right and bottom, pixels of the layer


@lru_cache(maxsize=16)
def font(size: float) -> Any:
    """Pillow's own font, so that a sheet looks the same on every machine."""
    return ImageFont.load_default(size)


def length(text: str, size: float) -> float:
    """Width of a line, pixels; measured on large letters, as widths of small ones are rounded."""
    return float(font(LETTERS * size).getlength(text)) / LETTERS


def shorten(text: str, width: float, size: float) -> str:
    """The text on one line of at most ``width`` pixels; an ellipsis replaces the middle of a longer text."""
    text = " ".join(text.split())
    if length(text, size) <= width:
        return text

    def kept(count: int) -> str:
        return f"{text[: (count + 1) // 2]}…{text[len(text) - count // 2 :]}"

    longest = bisect_right(range(len(text)), width, key=lambda count: length(kept(count), size)) - 1
    return kept(max(0, longest))


def lay_out_names(
    names: Iterable[tuple[int, str]], boxes: npt.NDArray[np.float64], size: tuple[int, int], unit: float
) -> list[Name]:
    """Give each name in turn a free rectangle at a corner of its box; leave out names without one."""
    # boxes (M, 4)
    laid_out: list[Name] = []
    pad, height = _PAD * unit, _HEIGHT * unit
    for number, name in names:
        text = shorten(name, max(0.0, size[0] - 2 * pad), NAME_SIZE * unit)
        width = length(text, NAME_SIZE * unit) + 2 * pad
        left, top, right, bottom = boxes[number].tolist()
        above, inside = top - height, bottom - height
        corners = ((left, above), (left, top), (right - width, top), (left, inside), (left, bottom))
        for across, down in corners:
            x = min(max(across, 0.0), max(0.0, size[0] - width))
            y = min(max(down, 0.0), max(0.0, size[1] - height))
            rectangle = (x, y, x + width, y + height)
            if not any(_overlap(rectangle, earlier.rectangle) for earlier in laid_out):
                laid_out.append(Name(text, number, rectangle))
                break
    return laid_out


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
