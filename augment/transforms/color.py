"""Linear colour transforms of torchvision.transforms.v2, which are composed into one affine map of RGB.

They differ from torchvision in four ways. Values are clipped once, at the end (and only where the
output is uint8), not after each operation. Grey is not rounded. Hue is a rotation about the grey
axis, see :func:`stoker.augment.state.hue`. Contrast is relative to the mean grey of the output, so
where a crop follows it, the mean is taken over the crop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

from ..state import GREY, TransformState
from .base import Transform, between, is_finite

Float = npt.NDArray[np.float64]
Range = Sequence[float]

_IDENTITY = np.eye(3)
_CIRCULANT = np.array([[0, 1, 2], [2, 0, 1], [1, 2, 0]])
_NEUTRAL = (1.0, 1.0, 1.0, 0.0)
_INVERT = np.column_stack((-np.eye(3), (255, 255, 255)))


@dataclass(frozen=True)
class ColorJitter(Transform):
    """Change brightness, contrast, saturation and hue, in random order.

    Args:
        brightness: Range of the factor of levels, or one number x for (max(0, 1 - x), 1 + x); None for no
            change.
        contrast: Range of the factor of the difference from the mean grey of the image, likewise.
        saturation: Range of the factor of the difference from the pixel's grey, likewise.
        hue: Range of the turn, in full turns within -0.5 to 0.5, or one number x for (-x, x); None for no
            change.

    All are drawn uniformly, and all 24 orders are equally likely.
    """

    brightness: float | Range | None = None
    contrast: float | Range | None = None
    saturation: float | Range | None = None
    hue: float | Range | None = None

    draws: ClassVar[int] = 8

    def __post_init__(self) -> None:
        for name in ("brightness", "contrast", "saturation"):
            self._set_factor(name)
        rule = "None, a number within 0 to 0.5 or a pair -0.5 <= low <= high <= 0.5"
        if is_finite(self.hue):
            self.check("hue", 0 <= self.hue <= 0.5, rule)
            self.set("hue", (0.0 - float(self.hue), float(self.hue)))
        if self.hue is not None:
            self.set_range("hue", -0.5, 0.5, rule)

    def params(self, state: TransformState, u: Float) -> None:
        ranges = (self.brightness, self.contrast, self.saturation, self.hue)
        factors = [
            np.full(len(u), neutral) if r is None else between(r, u[:, 4 + i])
            for i, (r, neutral) in enumerate(zip(ranges, _NEUTRAL, strict=True))
        ]
        matrices, grey_shares = _operations(*factors)
        order = np.argsort(u[:, :4], axis=1, kind="stable")
        rows = np.arange(len(u))
        for chosen in order.T:
            shares = None if self.contrast is None else grey_shares[chosen, rows]
            state.color.linear(matrices[chosen, rows], shares)

    def _set_factor(self, name: str) -> None:
        rule = "None, a number from 0 or a pair 0 <= low <= high"
        value = getattr(self, name)
        if is_finite(value):
            self.check(name, value >= 0, rule)
            self.set(name, (max(0.0, 1 - float(value)), 1 + float(value)))
        if value is not None:
            self.set_range(name, 0, math.inf, rule)


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
        (brightness, contrast, saturation, hue), grey_shares = _operations(*factors)
        state.color.linear(brightness)
        state.color.linear(np.where(where, contrast, np.eye(3)), np.where(early, grey_shares[1], 0))
        state.color.linear(hue @ saturation)
        state.color.linear(np.where(where, np.eye(3), contrast), np.where(early, 0, grey_shares[1]))
        state.color.linear(permutation_matrix(np.where(applied[:, 4:], order, np.arange(3))))


@dataclass(frozen=True)
class RandomChannelPermutation(Transform):
    """Put the channels into random order; all six orders are equally likely."""

    draws: ClassVar[int] = 3

    def params(self, state: TransformState, u: Float) -> None:
        state.color.linear(permutation_matrix(np.argsort(u, axis=1, kind="stable")))


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
        state.color.linear(grey_matrix(np.ones(len(u), np.bool_)))


@dataclass(frozen=True)
class RandomGrayscale(Transform):
    """Grey in all three channels, with probability ``p``."""

    p: float = 0.1

    draws: ClassVar[int] = 1

    def __post_init__(self) -> None:
        self.check_probability()

    def params(self, state: TransformState, u: Float) -> None:
        state.color.linear(grey_matrix(u[:, 0] < self.p))


@dataclass(frozen=True)
class RandomInvert(Transform):
    """Turn each level x to 255 - x, with probability ``p``."""

    p: float = 0.5

    draws: ClassVar[int] = 1

    def __post_init__(self) -> None:
        self.check_probability()

    def params(self, state: TransformState, u: Float) -> None:
        identity = np.eye(3, 4)
        state.color.affine(np.where(u < self.p, 1.0, 0.0)[:, :, None] * (_INVERT - identity) + identity)


def _operations(brightness: Float, contrast: Float, saturation: Float, hue: Float) -> tuple[Float, Float]:
    """Matrices, (4, N, 3, 3), and shares of the mean grey, (4, N), of brightness, contrast and so on."""
    matrices = np.stack(
        (
            brightness_matrix(brightness),
            brightness_matrix(contrast),
            saturation_matrix(saturation),
            hue_matrix(hue),
        )
    )
    grey_shares = np.zeros((4, len(contrast)))
    grey_shares[1] = 1 - contrast
    return matrices, grey_shares


def brightness_matrix(factor: Float) -> Float:
    """``factor * rgb``."""
    return np.asarray(factor[..., None, None] * _IDENTITY)


def saturation_matrix(factor: Float) -> Float:
    """``factor * rgb + (1 - factor) * grey``."""
    return np.asarray(brightness_matrix(factor) + (1 - factor)[..., None, None] * GREY)


def grey_matrix(where: npt.NDArray[np.bool_]) -> Float:
    """Grey in all three channels where ``where`` is true."""
    return saturation_matrix(np.where(where, 0.0, 1.0))


def hue_matrix(turn: Float) -> Float:
    """Rotation of RGB space about the grey axis by ``turn`` of a full turn; red to green is 1/3."""
    # It keeps the mean of the channels and the distance from grey. torchvision shifts the hue of HSV, which
    # is not linear: it keeps the largest and the smallest channel. The two are equal at thirds of a turn and
    # for grey; in between a saturated colour differs by up to a third of the range (at a sixth of a turn; a
    # seventh at 0.05).
    angle = 2 * np.pi * turn
    even, odd = (1 - np.cos(angle)) / 3, np.sin(angle) / np.sqrt(3)
    circulant = np.stack((1 - 2 * even, even - odd, even + odd), axis=-1)
    return circulant[:, _CIRCULANT]


def permutation_matrix(order: npt.NDArray[np.int64]) -> Float:
    """Channel ``i`` becomes what channel ``order[:, i]`` was; (N, 3) integers."""
    return np.eye(3)[order]
