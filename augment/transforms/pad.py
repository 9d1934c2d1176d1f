"""Padding: torchvision.transforms.v2.Pad and RandomCrop with its padding.

A ``padding_mode`` other than "constant" repeats parts of the resized image: crops, flips and warps may follow
it, but no resize. A class mask is continued like the image; objects are not repeated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from stoker.errors import ConfigError
from stoker.types import Size

from ..state import MODES, TransformState
from .base import Float, Int, Transform, as_tuple, between


@dataclass(frozen=True)
class Pad(Transform):
    """Add a border.

    Args:
        padding: Width of the border in pixels: one number, or two (left and right, top and bottom),
            or four (left, top, right, bottom).
        fill: Level 0..255 or three of them (RGB). A list of transforms has one fill, which
            CenterCrop and the warps in the list also use.
        padding_mode: "constant" for ``fill``, or how the image is continued: "edge" repeats its last row or
            column, "reflect" mirrors it about their centres, "symmetric" about its border, repeatedly if the
            border is wide. A list of transforms has at most one border that is not constant.
    """

    padding: int | Sequence[int]
    fill: int | Sequence[int] = 0
    padding_mode: str = "constant"

    def __post_init__(self) -> None:
        _set_padding(self)
        self.set_fill()
        _check_mode(self)

    def params(self, state: TransformState, u: Float) -> None:
        left, top, right, bottom = as_tuple(self.padding, 4)
        _pad(state, np.array([[top], [left]]), np.array([[bottom], [right]]), self)

    def output_size(self, size: Size | None) -> Size | None:
        if size is None:
            return None
        left, top, right, bottom = as_tuple(self.padding, 4)
        return size[0] + top + bottom, size[1] + left + right


@dataclass(frozen=True)
class RandomCrop(Transform):
    """Cut out a part of fixed size at a uniform location.

    Args:
        size: (height, width) in pixels, or one number for a square.
        padding: Border to add before, as for :class:`Pad`, or None.
        pad_if_needed: Whether an image that is still smaller is padded, on either side by the whole
            difference, as in torchvision. Otherwise such an image raises ConfigError.
        fill: As for :class:`Pad`.
        padding_mode: As for :class:`Pad`.
    """

    size: int | Sequence[int]
    padding: int | Sequence[int] | None = None
    pad_if_needed: bool = False
    fill: int | Sequence[int] = 0
    padding_mode: str = "constant"

    draws: ClassVar[int] = 2
    sized: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.set_size()
        if self.padding is not None:
            _set_padding(self)
        self.check_flag("pad_if_needed")
        self.set_fill()
        _check_mode(self)

    def params(self, state: TransformState, u: Float) -> None:
        size = np.array(self.size)[:, None]
        left, top, right, bottom = as_tuple(self.padding or 0, 4)
        before, after = np.array([[top], [left]]), np.array([[bottom], [right]])
        missing = np.maximum(size - (state.size + before + after), 0)
        if missing.any() and not self.pad_if_needed:
            height, width = (state.size + before + after)[:, missing.any(axis=0).argmax()]
            raise ConfigError(
                f"RandomCrop: size {self.size} is larger than an image of {height} x {width}",
                hint="Resize before it, or set pad_if_needed=True.",
            )
        # Whether padding continues the image must not depend on the images of a batch.
        may_continue = self.pad_if_needed and self.padding_mode != "constant"
        if self.padding is not None or missing.any() or may_continue:
            _pad(state, before + missing, after + missing, self)
        state.crop((u.T * (state.size - size + 1)).astype(np.int64), size)


def _pad(state: TransformState, before: Int, after: Int, how: Pad | RandomCrop) -> None:
    """Add rows and columns before and after, (2, N) or (2, 1)."""
    if how.padding_mode == "constant":
        state.use_fill(how.fill)
        state.crop(-before, state.size + before + after)
    else:
        state.pad(how.padding_mode, before, after)


def _check_mode(transform: Pad | RandomCrop) -> None:
    modes = ("constant", *MODES)
    transform.check("padding_mode", transform.padding_mode in modes, f"one of {', '.join(modes)}")


def _set_padding(transform: Pad | RandomCrop) -> None:
    rule = "one, two or four integers from 0, pixels"
    transform.set_numbers("padding", rule, lambda sides: len(sides) in (2, 4), times=4, whole=True)
    transform.set("padding", (as_tuple(transform.padding, 4) * 2)[:4])


@dataclass(frozen=True)
class RandomZoomOut(Transform):
    """Put the image at a uniform location in a larger one, with probability ``p`` (Liu et al., "SSD", 2016).

    Args:
        fill: Level 0..255 or three of them (RGB). A list of transforms has one fill.
        side_range: Range of the factor of height and width, from 1; drawn uniformly.
        p: Probability.
    """

    fill: int | Sequence[int] = 0
    side_range: Sequence[float] = (1.0, 4.0)
    p: float = 0.5

    draws: ClassVar[int] = 4
    varies: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.set_fill()
        self.set_range("side_range", 1, math.inf, "a pair of finite numbers, 1 <= low <= high")
        self.check_probability()

    def params(self, state: TransformState, u: Float) -> None:
        state.use_fill(self.fill)
        factor = np.where(u[:, 0] < self.p, between(self.side_range, u[:, 1]), 1.0)
        size = (state.size * factor).astype(np.int64)
        state.crop(-((size - state.size) * u[:, :1:-1].T).astype(np.int64), size)
