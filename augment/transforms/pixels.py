"""Transforms that change pixels beyond an affine map of colours; each adds a step.

The steps act on the pixels of the output, after all geometry, padding included; torchvision changes the
image as it is where the transform stands.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import numpy as np

from stoker.errors import ConfigError

from ..state import TransformState
from ..steps import AddNoise, Autocontrast, Blur, Compress, Displace, Equalize, Posterize, Sharpen, Solarize
from .base import SMALLEST, Float, Transform, as_pair, as_tuple, between, random_keys


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
        self.set_whole("bits", 0, 8)
        self.check_probability()

    def params(self, state: TransformState, u: Float) -> None:
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
        self.check_number("threshold", "a finite number, in levels of 0..255")
        self.check_probability()

    def params(self, state: TransformState, u: Float) -> None:
        threshold = min(max(math.ceil(self.threshold), 0), 256)
        state.add_steps(Solarize(u[:, 0] < self.p, np.full(len(u), threshold, np.int16)))


@dataclass(frozen=True)
class RandomAutocontrast(Transform):
    """Stretch each channel to the full range 0..255, with probability ``p``."""

    p: float = 0.5

    draws: ClassVar[int] = 1

    def __post_init__(self) -> None:
        self.check_probability()

    def params(self, state: TransformState, u: Float) -> None:
        state.add_steps(Autocontrast(u[:, 0] < self.p))


@dataclass(frozen=True)
class RandomEqualize(Transform):
    """Flatten each channel's histogram, with probability ``p``."""

    p: float = 0.5

    draws: ClassVar[int] = 1

    def __post_init__(self) -> None:
        self.check_probability()

    def params(self, state: TransformState, u: Float) -> None:
        state.add_steps(Equalize(u[:, 0] < self.p))


@dataclass(frozen=True)
class GaussianBlur(Transform):
    """Blur by a Gaussian whose standard deviation is drawn uniformly.

    Args:
        kernel_size: Width and height of the kernel (in this order, as in torchvision), odd, or one number.
        sigma: Range of the standard deviation, pixels, or one number.
    """

    kernel_size: int | Sequence[int]
    sigma: float | Sequence[float] = (0.1, 2.0)

    draws: ClassVar[int] = 1

    def __post_init__(self) -> None:
        rule = "an odd positive integer or a pair (width, height) of them, pixels"
        self.set_numbers("kernel_size", rule, lambda n: n[0] % 2 and n[1] % 2, count=2, times=2, whole=True)
        self.set("sigma", as_tuple(self.sigma, 2))
        self.set_range("sigma", SMALLEST, math.inf, "a number or a pair, 0 < low <= high, pixels")

    def params(self, state: TransformState, u: Float) -> None:
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
        self.check_number("sharpness_factor", "a finite number from 0", 0)
        self.check_probability()

    def params(self, state: TransformState, u: Float) -> None:
        state.add_steps(Sharpen(u[:, 0] < self.p, np.full(len(u), self.sharpness_factor, np.float32)))


@dataclass(frozen=True)
class GaussianNoise(Transform):
    """Add normal noise to each pixel and channel; levels are clipped to 0..255 and rounded.

    The noise is a function of seed, epoch, sample and pixel.

    Args:
        mean: Mean of the noise, as a share of the full range: 0.5 adds 127.5 levels.
        sigma: Standard deviation, likewise, from 0.
        clip: True. torchvision's False, with which levels overflow, is refused.
    """

    mean: float = 0.0
    sigma: float = 0.1
    clip: bool = True

    draws: ClassVar[int] = 1

    def __post_init__(self) -> None:
        self.check_number("mean", "a finite number, a share of the full range")
        self.check_number("sigma", "a finite number from 0, a share of the full range", 0)
        if self.clip is not True:
            raise ConfigError(
                f"GaussianNoise: clip must be True, found {self.clip!r}",
                hint="Leave it out: levels beyond 0..255 are clipped, as images have 8 bits here.",
            )

    def params(self, state: TransformState, u: Float) -> None:
        n = len(u)
        mean, deviation = (np.full(n, 255 * share, np.float32) for share in (self.mean, self.sigma))
        state.add_steps(AddNoise(np.ones(n, np.bool_), random_keys(u[:, 0]), mean, deviation))


@dataclass(frozen=True)
class JPEG(Transform):
    """Encode the image as a JPEG and decode it.

    Args:
        quality: 1 to 100, or a pair (lowest, highest), from which whole numbers are drawn uniformly.
    """

    quality: int | Sequence[int]

    draws: ClassVar[int] = 1

    def __post_init__(self) -> None:
        rule = "a whole number 1 to 100 or a pair (low, high) of them"
        self.set_numbers("quality", rule, lambda n: 1 <= n[0] <= n[1] <= 100, count=2, times=2, whole=True)

    def params(self, state: TransformState, u: Float) -> None:
        low, high = as_pair(self.quality)
        quality = (low + np.floor(u[:, 0] * (high - low + 1))).astype(np.uint8)
        state.add_steps(Compress(np.ones(len(u), np.bool_), quality))


@dataclass(frozen=True)
class ElasticTransform(Transform):
    """Move each pixel by a smooth random field, as if the image were printed on rubber.

    As torchvision's, the field is uniform noise of -1 to 1, smoothed by a Gaussian, times half of ``alpha``
    (:mod:`stoker.augment.noise`). It is a function of seed, epoch, sample and pixel. Crops and resizes must
    come before it. Masks follow, by nearest. Keypoints and the corners of boxes move by the negated field at
    the pixel that holds them, torchvision's approximation. A box becomes the upright box around its corners.

    Args:
        alpha: Strength, or a pair of them for x and y.
        sigma: Standard deviation of the Gaussian, or a pair of them for x and y, 0 to 1000 pixels. Large
            values make smoother and smaller displacements.
        interpolation: "bilinear" or "nearest", or torchvision's InterpolationMode.
        fill: As for :class:`stoker.augment.RandomRotation`.
    """

    alpha: float | Sequence[float] = 50.0
    sigma: float | Sequence[float] = 5.0
    interpolation: str | Enum = "bilinear"
    fill: int | Sequence[int] | None = None

    draws: ClassVar[int] = 1

    def __post_init__(self) -> None:
        rule = "a finite number or a pair of them, for x and y"
        self.set_numbers("alpha", rule, count=2, times=2)
        rule = "a number 0 to 1000 (pixels) or a pair of them, for x and y"
        self.set_numbers("sigma", rule, lambda n: 0 <= min(n) <= max(n) <= 1000, count=2, times=2)
        self.set_warping()

    def params(self, state: TransformState, u: Float) -> None:
        state.use_fill(self.fill)
        state.fix_size(type(self).__name__)
        where, keys = np.ones(len(u), np.bool_), random_keys(u[:, 0])
        alpha, sigma, nearest = as_pair(self.alpha), as_pair(self.sigma), self.interpolation == "nearest"
        state.add_steps(Displace(where, keys, alpha, sigma, tuple(state.fill.tolist()), nearest))
