"""Linear colour transforms of torchvision.transforms.v2, which are composed into one affine map of RGB.

They differ from torchvision in four ways. Values are clipped once, at the end (and only where the output is
uint8). Grey is not rounded. Hue is a rotation about the grey axis. Contrast is relative to the mean grey of
the output: where a crop follows, the mean is taken over the crop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from stoker.errors import ConfigError

from ..state import GREY, TransformState
from .base import Float, Transform, between

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
