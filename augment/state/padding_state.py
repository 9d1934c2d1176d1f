"""Padding of a batch that continues the image: what shows which of its rows and columns again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stoker.errors import ConfigError

from ..params.optional_params import Border

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..transforms.base import Size

    Int = npt.NDArray[np.int64]

__all__ = ["MODES", "PaddingState", "continued"]

MODES = ("edge", "reflect", "symmetric")


@dataclass(kw_only=True)
class PaddingState:
    """What lies around N images, once they were padded other than by a colour.

    Attributes:
        size: (2, N) int64, height and width that the images have by now, pixels.
        mode: How they are continued, one of ``MODES``; None before that.
        tile: (2, N) int64, size of what is continued: the image as it was then.
        origin: (2, N) int64, the row and column of it, or outside of it, with which the image begins.
    """

    size: Int
    mode: str | None = None
    tile: Int | None = None
    origin: Int | None = None

    def surround(self, mode: str, before: Int | int, after: Int | int) -> None:
        """Add rows and columns before and after, (2, N) or (2, 1), that continue the image."""
        self.refuse_border("another such padding")
        self.mode, self.tile = mode, self.size
        self.origin = np.zeros_like(self.size) - before
        self.size = self.size + before + after

    def refuse_border(self, what: str) -> None:
        """ConfigError where there is a border already, which ``what`` cannot follow."""
        if self.mode is not None:
            raise ConfigError(
                f"{what} stands after padding_mode={self.mode!r}; crops, flips, warps and colours may",
                hint="Move it before the padding.",
            )

    def crop_border(self, origin: Int, size: Int) -> None:
        """Cut out ``size`` pixels at ``origin``, both (2, N) or (2, 1), of what is there by now."""
        if np.any(origin < 0) or np.any(origin + size > self.size):
            self.refuse_border("a crop that pads")
        self.origin = self.origin + origin  # type: ignore[operator]  # there is a border
        self.size = np.broadcast_to(size, self.size.shape)

    def mirror_border(self, where: npt.NDArray[np.bool_], axis: int) -> None:
        """Let the image begin with its other end ``where``, (N,), the tile is mirrored along ``axis``."""
        if self.origin is not None and self.tile is not None:
            end = self.tile[axis] - self.size[axis] - self.origin[axis]
            self.origin[axis] = np.where(where, end, self.origin[axis])

    def border(self, size: Size) -> tuple[Border, Int, Int]:
        """What images of ``size`` show, and the part of ``tile`` that they do: origin and size, (2, N)."""
        axes = zip(self.origin, self.tile, size, strict=True)  # type: ignore[arg-type]  # there is a border
        places = [
            continued(origin[:, None] + np.arange(n), extent[:, None], str(self.mode))
            for origin, extent, n in axes
        ]
        low = np.array([place.min(axis=1) for place in places])
        extent = np.array([place.max(axis=1) for place in places]) + 1 - low
        rows, columns = (np.int32(place - first[:, None]) for place, first in zip(places, low, strict=True))
        origin = np.int32((self.origin - low).T)
        return Border(np.int32(extent.T), origin, rows, columns), low, extent


def continued(places: Int, extent: Int, mode: str) -> Int:
    """Which of ``extent`` rows or columns each place shows, as NumPy's ``pad`` has these modes.

    "edge" repeats the last one. The others turn around there, and at the other end, as often as it
    takes: "reflect" shows the last one once, "symmetric" twice.
    """
    if mode == "edge":
        return np.asarray(np.clip(places, 0, extent - 1))
    if mode == "symmetric":
        places = places % (2 * extent)
        return np.asarray(np.minimum(places, 2 * extent - 1 - places))
    period = np.maximum(2 * extent - 2, 1)
    places = places % period
    return np.asarray(np.minimum(places, period - places))
