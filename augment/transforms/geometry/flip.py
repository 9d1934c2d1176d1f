"""Flips: torchvision.transforms.v2.RandomHorizontalFlip and RandomVerticalFlip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ...state.transform_state import TransformState
from ..base import RandomTransform


@dataclass(frozen=True)
class _RandomFlip(RandomTransform):
    """Mirror along ``axis``, 0 vertical or 1 horizontal, with probability ``p``."""

    axis: ClassVar[int]

    def params(self, state: TransformState, u: npt.NDArray[np.float64]) -> None:
        """See :class:`Transform`."""
        state.mirror(u[:, 0] < self.p, self.axis)


@dataclass(frozen=True)
class RandomHorizontalFlip(_RandomFlip):
    """Mirror left and right with probability ``p``."""

    axis: ClassVar[int] = 1


@dataclass(frozen=True)
class RandomVerticalFlip(_RandomFlip):
    """Mirror top and bottom with probability ``p``."""

    axis: ClassVar[int] = 0
