"""Resizing at random: torchvision.transforms.v2.ScaleJitter, RandomShortestSize and RandomResize."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from stoker.types import Size

from ...description import added, as_tuple, between, is_count
from ...state.transform_state import TransformState
from ..base import Transform

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]


class _RandomSize(Transform):
    """A resize to a size that differs from sample to sample."""

    draws: ClassVar[int] = 1
    interpolation: str | Enum
    antialias: bool

    def __post_init__(self) -> None:
        self.set_interpolation()
        self.check_antialias()

    def params(self, state: TransformState, u: Float) -> None:
        """See :class:`Transform`."""
        size = np.maximum(self.new_size(state.size, u[:, 0]), 1)
        state.resize(size, self.interpolation, antialias=self.antialias)

    def new_size(self, size: Int, u: Float) -> Int:
        """New heights and widths, (2, N), of images of ``size``, (2, N), by random numbers, (N,)."""
        raise NotImplementedError

    def output_size(self, size: Size | None) -> Size | None:
        """See :class:`Transform`: None, for sizes differ from sample to sample."""
        return None


@dataclass(frozen=True)
class ScaleJitter(_RandomSize):
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

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = as_tuple(self.target_size, 2)
        good = len(sizes) == 2 and all(map(is_count, sizes))
        self.check("target_size", good, "a positive integer or a pair (width, height) of them, pixels")
        self.set("target_size", tuple(map(int, sizes)))
        self.set_range("scale_range", sys.float_info.min, math.inf, "a pair of numbers, 0 < low <= high")

    def new_size(self, size: Int, u: Float) -> Int:
        """See :class:`_RandomSize`."""
        factor = (np.array(self.target_size)[::-1, None] / size).min(axis=0) * between(self.scale_range, u)
        return np.asarray((size * factor).astype(np.int64))


@dataclass(frozen=True)
class RandomShortestSize(_RandomSize):
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

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = as_tuple(self.min_size, 1)
        good = len(sizes) > 0 and all(map(is_count, sizes))
        self.check("min_size", good, "one or several positive integers, pixels")
        self.set("min_size", tuple(map(int, sizes)))
        self.check("max_size", self.max_size is None or is_count(self.max_size), "None or a positive integer")

    def new_size(self, size: Int, u: Float) -> Int:
        """See :class:`_RandomSize`."""
        sizes = np.array(self.min_size)
        factor = sizes[(u * len(sizes)).astype(np.int64)] / size.min(axis=0)
        if self.max_size is not None:
            factor = np.minimum(factor, self.max_size / size.max(axis=0))
        return np.asarray((size * factor).astype(np.int64))


@dataclass(frozen=True)
class RandomResize(_RandomSize):
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

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("min_size", is_count(self.min_size), "a positive integer")
        rule = f"an integer more than min_size (which is {self.min_size})"
        self.check("max_size", is_count(self.max_size) and self.max_size > self.min_size, rule)

    def new_size(self, size: Int, u: Float) -> Int:
        """See :class:`_RandomSize`."""
        shorter = self.min_size + (u * (self.max_size - self.min_size)).astype(np.int64)
        longer = (shorter * size.max(axis=0) / size.min(axis=0)).astype(np.int64)
        return np.where(size == size.min(axis=0), shorter, longer)
