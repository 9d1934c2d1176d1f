"""Steps that filter an image: each pixel's colour depends on its neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from .base import Step, to_uint8

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Sharpen(Step):
    """The difference from the smoothed image is multiplied: torchvision's ``adjust_sharpness``.

    With s the sum of the 3 x 3 pixels about level x, x itself counted five times, the smoothed level
    is ``b = (s + 6) // 13``, and x becomes ``x + floor((1 - factor) * (b - x))``, clipped to 0..255.
    Pixels of the border stay, and so do images with a side below 3. This is exact (in float64, or with
    a table over b - x); torchvision computes it in float32, where it may come out one lower or higher.

    Attributes:
        factor: (N,) float32, from 0: 0 smooths, 1 changes nothing, 2 sharpens.
    """

    operation: ClassVar[str] = "sharpen"

    factor: npt.NDArray[np.float32]

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        """See :class:`Step`."""
        height, width = pixels.shape[:2]
        levels = pixels.astype(np.int64)
        inner = levels[1:-1, 1:-1]
        total = 4 * inner
        for row in range(3):
            for column in range(3):
                total += levels[row : row + height - 2, column : column + width - 2]
        change = np.floor((1 - float(self.factor[i])) * ((total + 6) // 13 - inner))
        output: Pixels = pixels.copy()
        output[1:-1, 1:-1] = (inner + change).clip(0, 255)
        return output


@dataclass(frozen=True)
class Blur(Step):
    """Convolution with a truncated Gaussian: torchvision's ``gaussian_blur``.

    The weight at distance d is ``exp(-d**2 / (2 * sigma**2))`` for d up to half the kernel, weights of
    an axis sum to 1. The image is continued by reflection that does not repeat the border (NumPy's
    ``pad(mode="reflect")``, repeated where the image is small), and rounded once, half up, after both axes.

    Attributes:
        kernel_size: Height and width of the kernel, odd, pixels.
        sigma: (N, 2) float32, standard deviations along y and x, pixels, more than 0.
    """

    operation: ClassVar[str] = "blur"

    kernel_size: tuple[int, int]
    sigma: npt.NDArray[np.float32]

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        """See :class:`Step`."""
        values = pixels.astype(np.float64)
        for axis, (taps, sigma) in enumerate(zip(self.kernel_size, self.sigma[i].tolist(), strict=True)):
            offsets = np.arange(taps) - taps // 2
            weights = np.exp(-0.5 * (offsets / sigma) ** 2)
            margin = [(taps // 2, taps // 2) if a == axis else (0, 0) for a in range(3)]
            padded = np.pad(values, margin, "reflect")
            windows = np.lib.stride_tricks.sliding_window_view(padded, taps, axis=axis)
            values = windows @ (weights / weights.sum())
        return to_uint8(values)
