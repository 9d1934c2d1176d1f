"""Filters: torchvision.transforms.v2.GaussianBlur and RandomAdjustSharpness.

They act on the pixels of the output, after all geometry, padding included; torchvision filters the image as
it is where the transform stands.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ...description import as_pair, as_tuple, between, is_count, is_finite
from ...state.transform_state import TransformState
from ...steps import Blur, Sharpen
from ..base import Transform

Float = npt.NDArray[np.float64]


@dataclass(frozen=True)
class GaussianBlur(Transform):
    """Blur by a Gaussian whose standard deviation is drawn uniformly.

    Args:
        kernel_size: Width and height of the kernel, odd, pixels, or one number for both. Width comes
            first, as in torchvision, and unlike in sizes.
        sigma: Range of the standard deviation, pixels, or one number.
    """

    kernel_size: int | Sequence[int]
    sigma: float | Sequence[float] = (0.1, 2.0)

    draws: ClassVar[int] = 1

    def __post_init__(self) -> None:
        pair = as_tuple(self.kernel_size, 2)
        good = len(pair) == 2 and all(is_count(taps) and taps % 2 == 1 for taps in pair)
        self.check("kernel_size", good, "an odd positive integer or a pair (width, height) of them, pixels")
        self.set("kernel_size", tuple(map(int, pair)))
        self.set("sigma", as_tuple(self.sigma, 2))
        self.set_range("sigma", sys.float_info.min, math.inf, "a number or a pair, 0 < low <= high, pixels")

    def params(self, state: TransformState, u: Float) -> None:
        """See :class:`Transform`."""
        width, height = as_pair(self.kernel_size)
        sigma = between(self.sigma, u).astype(np.float32)
        state.add_steps(Blur(np.ones(len(u), np.bool_), (height, width), np.repeat(sigma, 2, axis=1)))


@dataclass(frozen=True)
class RandomAdjustSharpness(Transform):
    """Multiply the difference from the smoothed image by ``sharpness_factor``, with probability ``p``.

    Args:
        sharpness_factor: From 0; 0 smooths, 1 changes nothing, 2 sharpens.
        p: Probability.
    """

    sharpness_factor: float
    p: float = 0.5

    draws: ClassVar[int] = 1

    def __post_init__(self) -> None:
        value = self.sharpness_factor
        self.check("sharpness_factor", is_finite(value) and value >= 0, "a finite number from 0")
        self.check_probability()

    def params(self, state: TransformState, u: Float) -> None:
        """See :class:`Transform`."""
        state.add_steps(Sharpen(u[:, 0] < self.p, np.full(len(u), self.sharpness_factor, np.float32)))
