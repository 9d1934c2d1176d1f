"""Transforms of colours: maps of RGB, and steps, which change pixels beyond that.

Maps are composed. They differ from torchvision in four ways. Values are clipped once, at the end (and only
where the output is uint8). Grey is not rounded. Hue is a rotation about the grey axis. Contrast is relative
to the mean grey of the output: where a crop follows, the mean is taken over the crop. Steps act on the pixels
of the output, after all geometry, padding included.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import numpy as np

from stoker.errors import ConfigError

from ..state import GREY, TransformState
from ..steps import AddNoise, Autocontrast, Blur, Compress, Displace, Equalize, Posterize, Sharpen, Solarize
from .base import SMALLEST, Float, Transform, as_pair, as_tuple, between, random_keys

Range = Sequence[float]

_NEUTRAL = (1.0, 1.0, 1.0, 0.0)


@dataclass(frozen=True)
class ColorJitter(Transform):
    """Change brightness, contrast, saturation and hue, in random order.

    Args:
        brightness: Range of the factor of levels, or one number x for (max(0, 1 - x), 1 + x).
        contrast: Range of the factor of the difference from the mean grey of the image, likewise.
        saturation: Range of the factor of the difference from the pixel's grey, likewise.
        hue: Range of the turn, in full turns within -0.5 to 0.5, or one number x for (-x, x).

    None changes nothing. All are drawn uniformly, and all 24 orders are equally likely.
    """

    brightness: float | Range | None = None
    contrast: float | Range | None = None
    saturation: float | Range | None = None
    hue: float | Range | None = None

    draws: ClassVar[int] = 8

    def __post_init__(self) -> None:
        for name in ("brightness", "contrast", "saturation"):
            if getattr(self, name) is not None:
                self.set_spread(name, "None, a number from 0 or a pair 0 <= low <= high", 1, 0, math.inf)
        if self.hue is not None:
            rule = "None, a number within 0 to 0.5 or a pair -0.5 <= low <= high <= 0.5"
            self.set_spread("hue", rule, 0, -0.5, 0.5)

    def params(self, state: TransformState, u: Float) -> None:
        ranges = (self.brightness, self.contrast, self.saturation, self.hue)
        factors = [
            np.full(len(u), neutral) if r is None else between(r, u[:, 4 + i])
            for i, (r, neutral) in enumerate(zip(ranges, _NEUTRAL, strict=True))
        ]
        matrices = _operations(*factors)
        for chosen in np.argsort(u[:, :4], axis=1, kind="stable").T:
            grey_share = None if self.contrast is None else np.where(chosen == 1, 1 - factors[1], 0)
            state.color.linear(matrices[chosen, np.arange(len(u))], grey_share)


@dataclass(frozen=True)
class RandomPhotometricDistort(Transform):
    """The distortions of SSD (Liu et al., 2016), each applied with probability ``p``.

    In this order: brightness, contrast (here or, as likely, after hue), saturation, hue, and a
    permutation of the channels. Factors and turns are drawn uniformly.

    Args:
        brightness: Range of the factor, as for :class:`ColorJitter`.
        contrast: Range of the factor.
        saturation: Range of the factor.
        hue: Range of the turn, in full turns within -0.5 to 0.5.
        p: Probability of each distortion.
    """

    brightness: Range = (0.875, 1.125)
    contrast: Range = (0.5, 1.5)
    saturation: Range = (0.5, 1.5)
    hue: Range = (-0.05, 0.05)
    p: float = 0.5

    draws: ClassVar[int] = 13

    def __post_init__(self) -> None:
        for name in ("brightness", "contrast", "saturation"):
            self.set_range(name, 0, math.inf, "a pair 0 <= low <= high")
        self.set_range("hue", -0.5, 0.5, "a pair -0.5 <= low <= high <= 0.5")
        self.check_probability()

    def params(self, state: TransformState, u: Float) -> None:
        ranges = (self.brightness, self.contrast, self.saturation, self.hue)
        applied = u[:, :5] < self.p
        factors = [
            np.where(applied[:, i], between(r, u[:, 5 + i]), neutral)
            for i, (r, neutral) in enumerate(zip(ranges, _NEUTRAL, strict=True))
        ]
        early = u[:, 9] < 0.5
        where = early[:, None, None]
        order = np.argsort(u[:, 10:13], axis=1, kind="stable")
        brightness, contrast, saturation, hue = _operations(*factors)
        state.color.linear(brightness)
        state.color.linear(np.where(where, contrast, np.eye(3)), np.where(early, 1 - factors[1], 0))
        state.color.linear(hue @ saturation)
        state.color.linear(np.where(where, np.eye(3), contrast), np.where(early, 0, 1 - factors[1]))
        # Channel ``i`` becomes what channel ``order[:, i]`` was.
        state.color.linear(np.eye(3)[np.where(applied[:, 4:], order, np.arange(3))])


@dataclass(frozen=True)
class RandomChannelPermutation(Transform):
    """Put the channels into random order; all six orders are equally likely."""

    draws: ClassVar[int] = 3

    def params(self, state: TransformState, u: Float) -> None:
        state.color.linear(np.eye(3)[np.argsort(u, axis=1, kind="stable")])


@dataclass(frozen=True)
class Grayscale(Transform):
    """Grey in all three channels.

    Args:
        num_output_channels: 3. torchvision's default, 1, is refused: transforms do not change the number of
            channels.
    """

    num_output_channels: int = 1

    def __post_init__(self) -> None:
        if self.num_output_channels != 3:
            raise ConfigError(
                f"Grayscale: num_output_channels must be 3, found {self.num_output_channels!r}",
                hint="Write Grayscale(3), which makes three equal channels, or load one with color='gray'.",
            )

    def params(self, state: TransformState, u: Float) -> None:
        state.color.linear(saturation_matrix(np.zeros(len(u))))


@dataclass(frozen=True)
class RandomGrayscale(Transform):
    """Grey in all three channels, with probability ``p``."""

    p: float = 0.1

    draws: ClassVar[int] = 1

    def __post_init__(self) -> None:
        self.check_probability()

    def params(self, state: TransformState, u: Float) -> None:
        state.color.linear(saturation_matrix(np.where(u[:, 0] < self.p, 0.0, 1.0)))


@dataclass(frozen=True)
class RandomInvert(Transform):
    """Turn each level x to 255 - x, with probability ``p``."""

    p: float = 0.5

    draws: ClassVar[int] = 1

    def __post_init__(self) -> None:
        self.check_probability()

    def params(self, state: TransformState, u: Float) -> None:
        inverted = np.column_stack((-np.eye(3), (255, 255, 255)))
        state.color.affine(np.where((u < self.p)[:, :, None], inverted, np.eye(3, 4)))


def _operations(brightness: Float, contrast: Float, saturation: Float, hue: Float) -> Float:
    """(4, N, 3, 3), the matrix of each; contrast also adds a share of the mean grey."""
    levels = np.stack((brightness, contrast))[..., None, None] * np.eye(3)
    return np.concatenate((levels, saturation_matrix(saturation)[None], hue_matrix(hue)[None]))


def saturation_matrix(factor: Float) -> Float:
    """``factor * rgb + (1 - factor) * grey``."""
    factor = factor[..., None, None]
    return np.asarray(factor * np.eye(3) + (1 - factor) * GREY)


def hue_matrix(turn: Float) -> Float:
    """Rotation of RGB space about the grey axis by ``turn`` of a full turn; red to green is 1/3."""
    # torchvision shifts the hue of HSV, which is not linear. The two are equal at thirds of a turn and for
    # grey; in between a saturated colour differs by up to a third of the range (at a sixth of a turn; a
    # seventh at 0.05).
    angle = 2 * np.pi * turn
    even, odd = (1 - np.cos(angle)) / 3, np.sin(angle) / np.sqrt(3)
    circulant = np.stack((1 - 2 * even, even - odd, even + odd), axis=-1)
    return circulant[:, [[0, 1, 2], [2, 0, 1], [1, 2, 0]]]


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
