"""Padding that continues the images of a batch: the row and column that each padded one shows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError
from stoker.types import Size

from ..params.optional_params import Border
from .sample_arrays import put_arrays, taken_arrays

Int = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64]

MODES = ("edge", "reflect", "symmetric")


@dataclass(kw_only=True)
class PaddingState:
    """Padding around N images that continues them."""

    mode: str  # How they are continued, one of ``MODES``
    size: Int  # (2, N) int64, height and width of the padded images, pixels
    tile: Int  # (2, N) int64, size of the image before it was padded: the tile that is continued
    origin: Int  # (2, N) int64, the row and column with which the image begins, counted from the tile's first

    @classmethod
    def of(cls, mode: str, tile: Int, before: Int | int, after: Int | int) -> PaddingState:
        """Images of size ``tile``, (2, N), with rows and columns before and after, (2, N) or (2, 1)."""
        return cls(mode=mode, size=tile + before + after, tile=tile, origin=np.zeros_like(tile) - before)

    def take(self, rows: Rows) -> PaddingState:
        """The padding of the samples at ``rows``, (M,)."""
        return replace(self, **taken_arrays(self, rows))

    def put(self, rows: Rows, taken: PaddingState) -> None:
        """Give the samples at ``rows`` the padding ``taken``; ConfigError for another mode."""
        if taken.mode != self.mode:
            raise ConfigError(
                f"transforms have padding_mode={taken.mode!r} and {self.mode!r}",
                hint="Use one padding_mode in a list of transforms.",
            )
        put_arrays(self, rows, taken)

    def refuse(self, what: str) -> None:
        """Raise ConfigError: ``what`` cannot follow this padding."""
        raise ConfigError(
            f"{what} stands after padding_mode={self.mode!r}",
            hint="Move it before the padding; crops, flips, warps and colours may follow.",
        )

    def crop(self, origin: Int, size: Int) -> None:
        """Cut out ``size`` pixels at ``origin``, both (2, N) or (2, 1); ConfigError outside of the image."""
        if np.any(origin < 0) or np.any(origin + size > self.size):
            self.refuse("a crop that pads")
        self.origin = self.origin + origin
        self.size = np.broadcast_to(size, self.size.shape)

    def mirror(self, where: npt.NDArray[np.bool_], axis: int) -> None:
        """Let the images with ``where``, (N,) bool, begin with their other end along ``axis``."""
        end = self.tile[axis] - self.size[axis] - self.origin[axis]
        self.origin[axis] = np.where(where, end, self.origin[axis])

    def border(self, size: Size) -> tuple[Border, Int, Int]:
        """Border of images of ``size``, and the part of the tile that they show: origin and size, (2, N)."""
        shown = [
            continued(origin[:, None] + np.arange(n), extent[:, None], self.mode)
            for origin, extent, n in zip(self.origin, self.tile, size, strict=True)
        ]
        low = np.array([lines.min(axis=1) for lines in shown])
        extent = np.array([lines.max(axis=1) for lines in shown]) + 1 - low
        rows, columns = (np.int32(lines - first[:, None]) for lines, first in zip(shown, low, strict=True))
        origin = np.int32((self.origin - low).T)
        return Border(np.int32(extent.T), origin, rows, columns), low, extent


def continued(padded: Int, extent: Int, mode: str) -> Int:
    """Return the row or column of an image that each row or column of the padded image shows.

    "edge" repeats the last one. The others turn around at each end, repeatedly if the border is wide:
    "reflect" shows the last one once, "symmetric" twice.
    """
    if mode == "edge":
        return np.asarray(np.clip(padded, 0, extent - 1))
    if mode == "symmetric":
        padded = padded % (2 * extent)
        return np.asarray(np.minimum(padded, 2 * extent - 1 - padded))
    period = np.maximum(2 * extent - 2, 1)
    padded = padded % period
    return np.asarray(np.minimum(padded, period - padded))
