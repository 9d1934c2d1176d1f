"""Transforms of torchvision.transforms.v2 that replace each level of a channel by another level.

Autocontrast and equalize depend on the image's own histogram, which engines take from the output,
after all geometry, padding included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ...description import is_finite, is_whole
from ...state.transform_state import TransformState
from ...steps import Autocontrast, Equalize, Posterize, Solarize
from ..base import RandomTransform, Transform

Float = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RandomPosterize(Transform):
    """Keep the highest bits of each level, with probability ``p``.

    Args:
        bits: Number of bits that stay, 0 to 8.
        p: Probability.
    """

    bits: int
    p: float = 0.5

    draws: ClassVar[int] = 1

    def __post_init__(self) -> None:
        self.check("bits", is_whole(self.bits) and self.bits <= 8, "an integer within 0 to 8")
        self.check_probability()

    def params(self, state: TransformState, u: Float) -> None:
        """See :class:`Transform`."""
        state.add_steps(Posterize(u[:, 0] < self.p, np.full(len(u), self.bits, np.uint8)))


@dataclass(frozen=True)
class RandomSolarize(Transform):
    """Invert the levels from ``threshold`` upwards, with probability ``p``.

    Args:
        threshold: Smallest level that is inverted, in levels of 0..255.
        p: Probability.
    """

    threshold: float
    p: float = 0.5

    draws: ClassVar[int] = 1

    def __post_init__(self) -> None:
        self.check("threshold", is_finite(self.threshold), "a finite number, in levels of 0..255")
        self.check_probability()

    def params(self, state: TransformState, u: Float) -> None:
        """See :class:`Transform`."""
        threshold = min(max(math.ceil(self.threshold), 0), 256)
        state.add_steps(Solarize(u[:, 0] < self.p, np.full(len(u), threshold, np.int16)))


@dataclass(frozen=True)
class RandomAutocontrast(RandomTransform):
    """Stretch each channel to the full range 0..255, with probability ``p``."""

    def params(self, state: TransformState, u: Float) -> None:
        """See :class:`Transform`."""
        state.add_steps(Autocontrast(u[:, 0] < self.p))


@dataclass(frozen=True)
class RandomEqualize(RandomTransform):
    """Flatten each channel's histogram, with probability ``p``."""

    def params(self, state: TransformState, u: Float) -> None:
        """See :class:`Transform`."""
        state.add_steps(Equalize(u[:, 0] < self.p))
