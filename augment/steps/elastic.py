"""The step of ElasticTransform: each pixel is moved by a smooth random field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from stoker.types import Size

from ..formulas.displacement import displacement
from .base import Step, to_uint8

Pixels = npt.NDArray[np.uint8]
Float = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Displace(Step):
    """The image, displaced by the field of :func:`stoker.augment.formulas.displacement.displacement`.

    Values between pixels are bilinear and rounded half up, or with ``nearest`` those of the pixel that the
    coordinates fall into. Outside of the image is ``fill``.

    Attributes:
        keys: (N,) uint64, of the fields.
        alpha: Strength along x and y.
        sigma: Standard deviation of the Gaussian along x and y, pixels, from 0.
        fill: RGB outside of the image, uint8.
        nearest: Whether pixels are picked, not interpolated.
    """

    operation: ClassVar[str] = "displace"

    keys: npt.NDArray[np.uint64]
    alpha: tuple[float, float]
    sigma: tuple[float, float]
    fill: tuple[int, int, int]
    nearest: bool = False

    def field(self, i: int, size: Size) -> Float:
        """(2, H, W) float64, the field of image ``i``: rows, then columns."""
        return displacement(int(self.keys[i]), size, self.alpha, self.sigma)

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        """See :class:`Step`."""
        return to_uint8(self.move(i, pixels, np.array(self.fill, np.float64)))

    def move(self, i: int, pixels: npt.NDArray[Any], fill: Float) -> Float:
        """Image ``i``, (H, W, C) of any dtype, displaced and not rounded; ``fill``, (C,), outside of it."""
        source = pixels.astype(np.float64)
        if not self.where[i]:
            return source
        coordinates = self._coordinates(i, (pixels.shape[0], pixels.shape[1]))
        if self.nearest:
            return _picked(source, coordinates, fill)
        rows, columns = coordinates
        top, left = np.floor(rows).astype(np.intp), np.floor(columns).astype(np.intp)
        down, right = (rows - top)[..., None], (columns - left)[..., None]
        source = _framed(source, fill)
        # Pixel (-1, -1) of the image is pixel (0, 0) of the frame.
        upper, upper_next = source[top + 1, left + 1], source[top + 1, left + 2]
        lower, lower_next = source[top + 2, left + 1], source[top + 2, left + 2]
        upper, lower = upper + (upper_next - upper) * right, lower + (lower_next - lower) * right
        moved: Float = upper + (lower - upper) * down
        return moved

    def mask(self, i: int, mask: npt.NDArray[Any], outside: int) -> npt.NDArray[Any]:
        """Mask of image ``i``, (H, W), displaced as its image; pixels are picked."""
        if not self.where[i]:
            return mask
        size = mask.shape[0], mask.shape[1]
        return _picked(mask, self._coordinates(i, size), np.array(outside, mask.dtype))

    def _coordinates(self, i: int, size: Size) -> Float:
        """(2, H, W), row and column that each pixel shows, at most one pixel outside of the image."""
        coordinates = np.indices(size, np.float64) + self.field(i, size)
        return np.stack([coordinates[axis].clip(-1, size[axis]) for axis in (0, 1)])


def _framed(pixels: npt.NDArray[Any], fill: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The image within a frame of ``fill``: one pixel at the top and left, two at the bottom and right."""
    height, width = pixels.shape[:2]
    framed = np.empty((height + 3, width + 3, *pixels.shape[2:]), pixels.dtype)
    framed[:] = fill
    framed[1 : height + 1, 1 : width + 1] = pixels
    return framed


def _picked(pixels: npt.NDArray[Any], coordinates: Float, fill: npt.NDArray[Any]) -> npt.NDArray[Any]:
    rows, columns = np.floor(coordinates + 0.5).astype(np.intp) + 1
    picked: npt.NDArray[Any] = _framed(pixels, fill)[rows, columns]
    return picked
