"""Operations on pixels that no affine map can express, as data, and what each does to one image.

A step takes (H, W, 3) uint8 and leaves (H, W, 3) uint8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Pixels = npt.NDArray[np.uint8]

__all__ = ["Affine", "Autocontrast", "Equalize", "Step", "Table"]


@dataclass(frozen=True)
class Affine:
    """A colour map that a table follows, so that it must be rounded (half up) and clipped to uint8.

    Attributes:
        color: (N, 3, 4) float32, as in ``ImageParams``.
        mean: (N, 3, 3) float32, as in ``ImageParams``, of the image that this step finds; or None.
    """

    color: npt.NDArray[np.float32]
    mean: npt.NDArray[np.float32] | None

    def run(self, i: int, pixels: Pixels) -> Pixels:
        """Execute it on the image of sample ``i``."""
        color = self.color[i].astype(np.float64)
        values: npt.NDArray[np.float64] = pixels @ color[:, :3].T + color[:, 3]
        if self.mean is not None:
            values += self.mean[i].astype(np.float64) @ pixels.mean(axis=(0, 1))
        return np.floor(values.clip(0, 255) + 0.5).astype(np.uint8)


@dataclass(frozen=True)
class Table:
    """Each level of each channel becomes another.

    Attributes:
        levels: (N, 3, 256) uint8.
    """

    levels: npt.NDArray[np.uint8]

    def run(self, i: int, pixels: Pixels) -> Pixels:
        """Execute it on the image of sample ``i``."""
        return _look_up(pixels, self.levels[i])


@dataclass(frozen=True)
class Autocontrast:
    """Each channel's range becomes 0..255: ``(x - low) * 255 // (high - low)``, if it is no single level.

    torchvision computes the same in float32, where an exact result may come out one lower.

    Attributes:
        where: (N,) bool, images that it is applied to.
    """

    where: npt.NDArray[np.bool_]

    def run(self, i: int, pixels: Pixels) -> Pixels:
        """Execute it on the image of sample ``i``."""
        return _look_up(pixels, _tables(pixels, _stretched)) if self.where[i] else pixels


@dataclass(frozen=True)
class Equalize:
    """Each channel's histogram becomes flat, as torchvision and Pillow's ``ImageOps.equalize`` do it.

    With h the histogram and s the number of pixels that are not of the highest level, divided by 255
    and truncated, level x becomes ``min((sum(h[:x]) + s // 2) // s, 255)``; nothing changes if s is 0.

    Attributes:
        where: (N,) bool, images that it is applied to.
    """

    where: npt.NDArray[np.bool_]

    def run(self, i: int, pixels: Pixels) -> Pixels:
        """Execute it on the image of sample ``i``."""
        return _look_up(pixels, _tables(pixels, _equalized)) if self.where[i] else pixels


Step = Affine | Table | Autocontrast | Equalize


def _look_up(pixels: Pixels, levels: npt.NDArray[np.uint8]) -> Pixels:
    return np.stack([levels[c][pixels[..., c]] for c in range(3)], axis=-1)


def _tables(pixels: Pixels, law: Callable[[npt.NDArray[np.intp]], npt.NDArray[np.intp]]) -> Pixels:
    """(3, 256) tables that follow from each channel's histogram."""
    histograms = [np.bincount(pixels[..., c].ravel(), minlength=256) for c in range(3)]
    return np.stack([law(histogram) for histogram in histograms]).astype(np.uint8)


def _stretched(histogram: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    low, *_, high = np.flatnonzero(histogram).repeat(2)
    if low == high:
        return np.arange(256)
    return np.asarray(np.clip((np.arange(256) - low) * 255 // (high - low), 0, 255))


def _equalized(histogram: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    highest = np.flatnonzero(histogram)[-1]
    step = (histogram.sum() - histogram[highest]) // 255
    if step == 0:
        return np.arange(256)
    before = histogram.cumsum() - histogram
    return np.asarray(np.clip((before + step // 2) // step, 0, 255))
