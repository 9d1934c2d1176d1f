"""Crops: torchvision.transforms.v2.CenterCrop and RandomResizedCrop."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ...description import added
from ...state.transform_state import TransformState
from ..base import SizedTransform
from .area import ATTEMPTS, first_fit

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CenterCrop(SizedTransform):
    """Cut out the centre; an image that is smaller is padded, with black unless another transform has a fill.

    Args:
        size: (height, width) in pixels, or one number for a square.
        fill: Level 0..255 or three of them (RGB) of padding, as for :class:`stoker.augment.Pad`; None leaves
            the choice to other transforms.

    An odd margin is rounded as in torchvision: the origin of a crop is an even pixel; the larger half of
    padding is at the bottom and right.
    """

    fill: int | Sequence[int] | None = added(None)

    def __post_init__(self) -> None:
        self.set_size()
        self.set_fill(optional=True)

    def params(self, state: TransformState, u: npt.NDArray[np.float64]) -> None:
        """See :class:`Transform`."""
        state.use_fill(self.fill)
        size = np.array(self.size)[:, None]
        margin = state.size - size
        origin = np.where(margin > 0, np.rint(margin / 2), -(-margin // 2)).astype(np.int64)
        state.crop(origin, size)


@dataclass(frozen=True)
class RandomResizedCrop(SizedTransform):
    """Cut out a part of random area and aspect ratio, and resize it ("Inception crop").

    Args:
        size: (height, width) of the output in pixels, or one number for a square.
        scale: Range of the part's area as a share of the image's, drawn uniformly.
        ratio: Range of its aspect ratio, width over height, drawn uniformly in the logarithm.
        interpolation: As for :class:`stoker.augment.Resize`.
        antialias: Likewise.

    The distribution is torchvision's: an area and a ratio are drawn up to ten times, and the first part that
    fits gets a uniform location; if none fits, it is the largest central part within ``ratio``. The same
    draws give the same part on every platform, except for about one sample in 10**12, where the last bit of
    the platform's ``exp`` decides how half a pixel is rounded.
    """

    scale: Sequence[float] = (0.08, 1.0)
    ratio: Sequence[float] = (3 / 4, 4 / 3)
    interpolation: str | Enum = "bilinear"
    antialias: bool = added(True)

    draws: ClassVar[int] = 2 * ATTEMPTS + 2

    def __post_init__(self) -> None:
        self.set_size()
        self.set_interpolation()
        self.check_antialias()
        self.set_range("scale", 0, math.inf, "a pair of finite numbers, 0 <= low <= high")
        self.set_range("ratio", sys.float_info.min, math.inf, "a pair of finite numbers, 0 < low <= high")

    def params(self, state: TransformState, u: Float) -> None:
        """See :class:`Transform`."""
        size, fits = first_fit(state.size, (1, state.size), self.scale, self.ratio, u[:, : 2 * ATTEMPTS])
        missing = np.flatnonzero(~fits)
        if missing.size:
            size[:, missing] = self._central_size(state.size[:, missing])
        margin = state.size - size
        origin = (u[:, 2 * ATTEMPTS :].T * (margin + 1)).astype(np.int64)
        if missing.size:
            origin[:, missing] = margin[:, missing] // 2
        state.crop(origin, size)
        state.resize(np.array(self.size)[:, None], self.interpolation, antialias=self.antialias)

    def _central_size(self, image: Int) -> Int:
        """Sizes, (2, M), of the largest parts whose aspect ratio lies within ``ratio``."""
        height, width = image
        low, high = self.ratio
        ratio = width / height
        new_height = np.where(ratio < low, np.rint(width / low), height)
        new_width = np.where(ratio > high, np.rint(height * high), width)
        return np.maximum((new_height, new_width), 1).astype(np.int64)
