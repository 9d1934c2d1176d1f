"""Resizes: Resize, ScaleJitter, RandomShortestSize, RandomResize and Letterbox."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar

import numpy as np

from stoker.types import Size

from ..state import TransformState
from .base import SMALLEST, Float, Int, Transform, added, as_tuple, between, is_count


@dataclass(frozen=True)
class Resize(Transform):
    """Resize the image.

    Args:
        size: (height, width) in pixels, or one number for the shorter side; the longer side then
            follows from the aspect ratio, truncated to whole pixels as in torchvision. None where only
            ``max_size`` is given.
        interpolation: "bilinear", "bicubic", "nearest" or "lanczos", or torchvision's InterpolationMode; see
            :class:`stoker.augment.resampling.Interpolation`.
        max_size: Largest length of the longer side, pixels, with a single ``size`` only: where the longer
            side would exceed it, the image becomes smaller than ``size``. ``Resize(640, max_size=640)`` makes
            the longer side 640, as does ``max_size`` without a size; torchvision refuses the former.
        antialias: Whether each pixel of a smaller image is an average of all that it stands for. Without it,
            bilinear and bicubic look at the nearest pixels only, as torchvision does on tensors, but for
            images that are warped as well.

    A crop that follows is taken from the source directly: nothing is resampled twice.
    """

    size: int | Sequence[int] | None
    interpolation: str | Enum = "bilinear"
    max_size: int | None = None
    antialias: bool = added(True)

    def __post_init__(self) -> None:
        sizes = as_tuple(self.size, 1)
        if self.size is None:
            self.set_whole("max_size")
        else:
            self.set_size()
            self.set("size", int(sizes[0]) if len(sizes) == 1 else self.size)
        self.set_interpolation()
        self.check_antialias()
        if self.size is not None and self.max_size is not None:
            good = isinstance(self.size, int) and is_count(self.max_size) and self.max_size >= self.size
            self.check("max_size", good, f"None, or at least a single size (which is {self.size})")

    def params(self, state: TransformState, u: Float) -> None:
        state.resize(self._new_size(state.size), self.interpolation, antialias=self.antialias)

    def output_size(self, size: Size | None) -> Size | None:
        if isinstance(self.size, tuple):
            return self.size
        if size is None:
            return None
        height, width = self._new_size(np.array(size)[:, None])[:, 0].tolist()
        return height, width

    def with_size(self, size: Size) -> Resize:
        return replace(self, size=size, max_size=None)

    def _new_size(self, size: Int) -> Int:
        """New sizes, (2, N), of images of ``size``, (2, N); (2, 1) where all have the same."""
        if isinstance(self.size, tuple):
            return np.array(self.size)[:, None]
        least, most = size.min(axis=0), size.max(axis=0)
        shorter, longer = least, most
        if isinstance(self.size, int):
            shorter, longer = np.full_like(least, self.size), (self.size * most / least).astype(np.int64)
        if self.max_size is not None:
            reduced = np.maximum((self.max_size * shorter / longer).astype(np.int64), 1)
            bounded = longer > self.max_size if self.size else np.full(longer.shape, True)
            shorter, longer = np.where(bounded, reduced, shorter), np.where(bounded, self.max_size, longer)
        return np.asarray(np.where(size == least, shorter, longer))


@dataclass(frozen=True)
class ScaleJitter(Transform):
    """Resize by a random factor ("large scale jitter", Ghiasi et al., 2021).

    Args:
        target_size: (width, height) in pixels, in torchvision's order for this transform, or one number for
            both. A factor of 1 makes the image fit into it.
        scale_range: Range of the factor, drawn uniformly.
        interpolation: As for :class:`stoker.augment.Resize`.
        antialias: Likewise.
    """

    target_size: int | Sequence[int]
    scale_range: Sequence[float] = (0.1, 2.0)
    interpolation: str | Enum = "bilinear"
    antialias: bool = added(True)

    draws: ClassVar[int] = 1
    varies: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.set_interpolation()
        self.check_antialias()
        self.set_size("target_size", "(width, height)")
        self.set_range("scale_range", SMALLEST, math.inf, "a pair of numbers, 0 < low <= high")

    def params(self, state: TransformState, u: Float) -> None:
        fitting = (np.array(self.target_size)[::-1, None] / state.size).min(axis=0)
        _resize(self, state, state.size * (fitting * between(self.scale_range, u[:, 0])))


@dataclass(frozen=True)
class RandomShortestSize(Transform):
    """Resize to a shorter side that is drawn from a list; the aspect ratio stays.

    Args:
        min_size: Lengths of the shorter side in pixels, one or several; drawn uniformly.
        max_size: Largest length of the longer side, pixels, or None; where the longer side would exceed it,
            the image becomes smaller.
        interpolation: As for :class:`stoker.augment.Resize`.
        antialias: Likewise.
    """

    min_size: int | Sequence[int]
    max_size: int | None = None
    interpolation: str | Enum = "bilinear"
    antialias: bool = added(True)

    draws: ClassVar[int] = 1
    varies: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.set_interpolation()
        self.check_antialias()
        self.set_numbers("min_size", "one or several positive integers, pixels", min, whole=True)
        self.set_whole("max_size", optional=True)

    def params(self, state: TransformState, u: Float) -> None:
        sizes = np.array(self.min_size)
        factor = sizes[(u[:, 0] * len(sizes)).astype(np.int64)] / state.size.min(axis=0)
        if self.max_size is not None:
            factor = np.minimum(factor, self.max_size / state.size.max(axis=0))
        _resize(self, state, state.size * factor)


@dataclass(frozen=True)
class RandomResize(Transform):
    """Resize to a shorter side that is drawn uniformly from a range; the aspect ratio stays.

    Args:
        min_size: Smallest length of the shorter side, pixels.
        max_size: Number above the largest length of the shorter side, pixels, as in torchvision.
        interpolation: As for :class:`stoker.augment.Resize`.
        antialias: Likewise.
    """

    min_size: int
    max_size: int
    interpolation: str | Enum = "bilinear"
    antialias: bool = added(True)

    draws: ClassVar[int] = 1
    varies: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.set_interpolation()
        self.check_antialias()
        self.set_whole("min_size")
        self.set_whole("max_size", self.min_size + 1)

    def params(self, state: TransformState, u: Float) -> None:
        size = state.size
        shorter = self.min_size + (u[:, 0] * (self.max_size - self.min_size)).astype(np.int64)
        longer = shorter * size.max(axis=0) / size.min(axis=0)
        _resize(self, state, np.where(size == size.min(axis=0), shorter, longer))


@dataclass(frozen=True)
class Letterbox(Transform):
    """Resize the image so that it just fits, and pad it to the size of the output.

    Args:
        size: (height, width) of the output in pixels, or one number for a square.
        fill: Level 0..255 or three of them (RGB) of the padding; 114 is YOLO's grey. A list of transforms has
            one fill.
        enlarge: Whether an image that is smaller than the output is enlarged (``scaleup`` of Ultralytics).
        center: Whether the image lies in the middle; else at the top left.
        interpolation: As for :class:`stoker.augment.Resize`.

    The geometry follows LetterBox in github.com/ultralytics/ultralytics, data/augment.py: sides are
    rounded, and the smaller half of an odd margin is at the top and left. Unlike there, resizing antialiases.
    """

    size: int | Sequence[int]
    fill: int | Sequence[int] = 114
    enlarge: bool = True
    center: bool = True
    interpolation: str | Enum = "bilinear"

    sized: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.set_size()
        self.set_fill()
        self.set_interpolation()
        self.check_flag("enlarge")
        self.check_flag("center")

    def params(self, state: TransformState, u: Float) -> None:
        size = np.array(self.size)[:, None]
        scale = (size / state.size).min(axis=0)
        if not self.enlarge:
            scale = np.minimum(scale, 1)
        fitted = np.maximum(np.rint(state.size * scale).astype(np.int64), 1)
        margin = size - fitted
        before = np.rint(margin / 2 - 0.1).astype(np.int64) if self.center else np.zeros_like(margin)
        state.use_fill(self.fill)
        state.resize(fitted, self.interpolation)
        state.crop(-before, size)


def _resize(
    transform: ScaleJitter | RandomShortestSize | RandomResize, state: TransformState, size: Float
) -> None:
    """Resize to sizes that differ from sample to sample, (2, N), truncated to whole pixels."""
    whole = np.maximum(size.astype(np.int64), 1)
    state.resize(whole, transform.interpolation, antialias=transform.antialias)
