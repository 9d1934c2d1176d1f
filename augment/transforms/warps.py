"""Flips and warps: torchvision.transforms.v2.RandomHorizontalFlip, RandomRotation, RandomAffine and the like.

A warp is composed into one matrix with all the geometry that follows it. The image before it must have one
size for all samples. The source is resampled once, with antialiasing, see
:class:`stoker.augment.params.Warp`.

``interpolation`` is "bilinear" by default, even after a resize with another interpolation. With "nearest",
pixels are picked from the image that the resize made by its own interpolation. That happens only if all warps
that change an image are "nearest".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import numpy as np

from stoker.types import Size

from ..state import TransformState
from .base import SMALLEST, Float, Int, Transform, as_pair, as_tuple, between

_DEGREES = "a number from 0 or a pair low <= high, in degrees"
_CORNERS = np.array(((0, 0), (0, 1), (1, 1), (1, 0)))  # row and column, clockwise from the top left


@dataclass(frozen=True)
class RandomHorizontalFlip(Transform):
    """Mirror left and right with probability ``p``."""

    p: float = 0.5

    draws: ClassVar[int] = 1

    def __post_init__(self) -> None:
        self.check_probability()

    def params(self, state: TransformState, u: Float) -> None:
        state.mirror(u[:, 0] < self.p, 1)


@dataclass(frozen=True)
class RandomVerticalFlip(Transform):
    """Mirror top and bottom with probability ``p``."""

    p: float = 0.5

    draws: ClassVar[int] = 1

    def __post_init__(self) -> None:
        self.check_probability()

    def params(self, state: TransformState, u: Float) -> None:
        state.mirror(u[:, 0] < self.p, 0)


@dataclass(frozen=True)
class RandomRotation(Transform):
    """Rotate counterclockwise.

    Args:
        degrees: Range of the angle, or one number x for (-x, x); drawn uniformly.
        interpolation: "bilinear" or "nearest", or torchvision's InterpolationMode.
        expand: Whether the image becomes large enough to show all of it. Sizes then differ, and a
            resize, or a crop that is no larger than the shorter side, must follow.
        center: Centre of the rotation, (x, y) in pixels from the top left corner, with edges of pixels at
            integers; None for the centre of the image, as it must be with ``expand``.
        fill: Level 0..255 or three of them (RGB) outside of the image; a list of transforms has one. None
            leaves the choice to other transforms (black).
    """

    degrees: float | Sequence[float]
    interpolation: str | Enum = "bilinear"
    expand: bool = False
    center: Sequence[float] | None = None
    fill: int | Sequence[int] | None = None

    draws: ClassVar[int] = 1
    warps: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.set_warping()
        self.set_spread("degrees", _DEGREES, 0, -math.inf, math.inf)
        self.check_flag("expand")
        self.check("center", self.center is None or not self.expand, "None where expand is True")
        _set_center(self)

    def params(self, state: TransformState, u: Float) -> None:
        size = state.size
        _warp(self, state, self.matrix(size, u))
        if self.expand:
            state.show_around_center(expanded(size, between(self.degrees, u[:, 0])))

    def matrix(self, size: Int, u: Float) -> Float:
        """(N, 3, 3), from (x, y, 1) in the output to the input, for images of ``size``, (2, N)."""
        return inverse_rotation(_center(self, size), -between(self.degrees, u[:, 0]))

    def output_size(self, size: Size | None) -> Size | None:
        return None if self.expand else size


@dataclass(frozen=True)
class RandomAffine(Transform):
    """Rotate, scale and shear about the centre, and shift.

    Args:
        degrees: Range of the rotation, clockwise, or one number x for (-x, x).
        translate: Largest shift to either side, as shares of width and height; rounded to pixels. None for
            no shift.
        scale: Range of the magnification; None for 1.
        shear: Range of the shear along x in degrees, or one number x for (-x, x), or four numbers: the ranges
            along x and y. None for no shear.
        interpolation: As for :class:`RandomRotation`.
        fill: As for :class:`RandomRotation`.
        center: As for :class:`RandomRotation`; the centre of rotation, scale and shear.

    All are drawn uniformly.
    """

    degrees: float | Sequence[float]
    translate: Sequence[float] | None = None
    scale: Sequence[float] | None = None
    shear: float | Sequence[float] | None = None
    interpolation: str | Enum = "bilinear"
    fill: int | Sequence[int] | None = None
    center: Sequence[float] | None = None

    draws: ClassVar[int] = 6
    warps: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.set_warping()
        self.set_spread("degrees", _DEGREES, 0, -math.inf, math.inf)
        _set_center(self)
        if self.translate is not None:
            rule = "None or two numbers within 0 to 1"
            self.set_numbers("translate", rule, lambda n: 0 <= min(n) <= max(n) <= 1, count=2)
        if self.scale is not None:
            self.set_range("scale", SMALLEST, math.inf, "None or a pair, 0 < low <= high")
        if self.shear is not None and len(as_tuple(self.shear, 1)) != 4:
            most = math.nextafter(90, 0)
            self.set_spread("shear", f"{_DEGREES}, within 90", 0, -most, most)
            self.set("shear", (*as_pair(self.shear), 0.0, 0.0))
        elif self.shear is not None:
            rule = "two ranges, low <= high, within -90 to 90 degrees, as four numbers"
            self.set_numbers("shear", rule, lambda n: -90 < n[0] <= n[1] < 90 and -90 < n[2] <= n[3] < 90)

    def params(self, state: TransformState, u: Float) -> None:
        _warp(self, state, self.matrix(state.size, u))

    def matrix(self, size: Int, u: Float) -> Float:
        """See :meth:`RandomRotation.matrix`."""
        n = len(u)
        shift = np.zeros((2, n))
        if self.translate is not None:
            most = np.array(self.translate)[:, None] * size[::-1]
            shift = np.rint((2 * u[:, 1:3].T - 1) * most)
        scale = np.ones(n) if self.scale is None else between(self.scale, u[:, 3])
        shear = as_tuple(self.shear or 0.0, 4)
        shears = np.stack((between(shear[:2], u[:, 4]), between(shear[2:], u[:, 5])))
        return inverse_affine(_center(self, size), between(self.degrees, u[:, 0]), shift, scale, shears)


@dataclass(frozen=True)
class RandomPerspective(Transform):
    """Move each corner inwards at random, with probability ``p``.

    Corners that form no convex quadrilateral leave the image as it is; torchvision then takes a least-squares
    solution. That happens only with an image of few pixels or a ``distortion_scale`` near 1.

    Args:
        distortion_scale: Largest move, as a share of half the height and width, 0 to 1; drawn uniformly.
        p: Probability.
        interpolation: As for :class:`RandomRotation`.
        fill: As for :class:`RandomRotation`.
    """

    distortion_scale: float = 0.5
    p: float = 0.5
    interpolation: str | Enum = "bilinear"
    fill: int | Sequence[int] | None = None

    draws: ClassVar[int] = 9
    warps: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.set_warping()
        self.check_number("distortion_scale", "a number within 0 to 1", 0, 1)
        self.check_probability()

    def params(self, state: TransformState, u: Float) -> None:
        _warp(self, state, self.matrix(state.size, u), perspective=True)

    def matrix(self, size: Int, u: Float) -> Float:
        """See :meth:`RandomRotation.matrix`."""
        # As torchvision draws them: up to ``most`` pixels from the top and left; and at the bottom and
        # right from the size less ``most`` to the size less one. Corners are (row, column).
        sizes = size.T[:, None]
        most = (self.distortion_scale * (sizes // 2)).astype(np.int64) + 1
        moved = (u[:, 1:].reshape(-1, 4, 2) * most).astype(np.int64)
        ends = np.where(_CORNERS, sizes - most + moved, moved)[..., ::-1]
        edges = np.roll(ends, -1, axis=1) - ends
        following = np.roll(edges, -1, axis=1)
        turns = edges[..., 0] * following[..., 1] - edges[..., 1] * following[..., 0]
        hit = np.flatnonzero((u[:, 0] < self.p) & np.all(turns > 0, axis=1))  # convex
        matrix = np.tile(np.eye(3), (len(u), 1, 1))
        # The map from the corners to where they move always exists, and is inverted. The map the other way
        # would not exist if a corner of the output showed a point infinitely far away.
        matrix[hit] = np.linalg.inv(homography((_CORNERS * (sizes[hit] - 1))[..., ::-1], ends[hit]))
        return matrix


def _warp(
    transform: RandomRotation | RandomAffine | RandomPerspective,
    state: TransformState,
    matrix: Float,
    *,
    perspective: bool = False,
) -> None:
    state.use_fill(transform.fill)
    state.distort(matrix, perspective=perspective, interpolation=transform.interpolation)


def _set_center(transform: RandomRotation | RandomAffine) -> None:
    if transform.center is not None:
        transform.set_numbers("center", "None or two numbers (x, y), pixels", count=2)


def _center(transform: RandomRotation | RandomAffine, size: Int) -> Float:
    """Centres of the warps of images of ``size``, (2, N): x and y, (2, N) or (2, 1)."""
    return size[::-1] / 2 if transform.center is None else np.array(transform.center)[:, None]


def inverse_rotation(center: Float, degrees: Float) -> Float:
    """(N, 3, 3) matrices that undo a rotation about a centre; see :func:`inverse_affine`."""
    angle = np.radians(degrees)
    inverse = np.zeros((len(angle), 3, 3))
    inverse[:, 0, 0] = inverse[:, 1, 1] = np.cos(angle)
    inverse[:, 0, 1] = np.sin(angle)
    inverse[:, 1, 0] = -inverse[:, 0, 1]
    return _about(inverse, center, center)


def expanded(size: Int, degrees: Float) -> Int:
    """Sizes, (2, N), that show the whole of images of ``size``, (2, N), rotated by ``degrees``, (N,)."""
    # As in torchvision, the ends are truncated to four decimals and then extended to whole pixels.
    angle, half = np.radians(degrees), size / 2
    reach = np.abs(np.cos(angle)) * half + np.abs(np.sin(angle)) * half[::-1]
    low = half - reach + 1e-6  # a whole number but for its last bits counts as one
    low, high = (np.trunc(end * 1e4) / 1e4 for end in (low, half + reach))
    return np.asarray(np.ceil(high) - np.floor(low), np.int64)


def inverse_affine(center: Float, degrees: Float, shift: Float, scale: Float, shear: Float) -> Float:
    """(N, 3, 3) matrices that undo scale, shear and rotation about a centre, and then a shift."""
    # center (2, N), degrees (N,), shift (2, N), scale (N,), shear (2, N)
    angle, (x, y) = np.radians(degrees), np.radians(shear)
    # Rotation and shear have determinant 1, so the inverse swaps and negates their entries.
    inverse = np.zeros((len(angle), 3, 3))
    inverse[:, 0, 0] = np.cos(angle) - np.sin(angle - y) * np.tan(x) / np.cos(y)
    inverse[:, 0, 1] = np.sin(angle) + np.cos(angle - y) * np.tan(x) / np.cos(y)
    inverse[:, 1, 0] = -np.sin(angle - y) / np.cos(y)
    inverse[:, 1, 1] = np.cos(angle - y) / np.cos(y)
    inverse /= scale[:, None, None]
    return _about(inverse, center, center + shift)


def homography(start: Int, end: Int) -> Float:
    """(N, 3, 3) matrices that map corners of rectangles, (N, 4, 2), to corners of convex quadrilaterals."""
    # One corner of each rectangle is the origin. The matrices' third component is positive within them.
    x, y = start[..., 0], start[..., 1]
    one, zero = np.ones_like(x), np.zeros_like(x)
    rows = [
        np.stack((x, y, one, zero, zero, zero, -end[..., 0] * x, -end[..., 0] * y), axis=-1),
        np.stack((zero, zero, zero, x, y, one, -end[..., 1] * x, -end[..., 1] * y), axis=-1),
    ]
    system = np.concatenate(rows, axis=1).astype(np.float64)
    target = np.concatenate((end[..., 0], end[..., 1]), axis=1).astype(np.float64)
    solved = np.linalg.solve(system, target[..., None])[..., 0]
    return np.concatenate((solved, np.ones((len(solved), 1))), axis=1).reshape(-1, 3, 3)


def _about(linear: Float, center: Float, moved: Float) -> Float:
    """Add translations to matrices, (N, 3, 3), that map ``moved`` to ``center``, both (2, N) or (2, 1)."""
    linear[:, :2, 2] = (center - (linear[:, :2, 0].T * moved[0] + linear[:, :2, 1].T * moved[1])).T
    linear[:, 2, 2] = 1
    return linear
