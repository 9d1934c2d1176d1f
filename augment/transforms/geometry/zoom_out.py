"""RandomZoomOut: torchvision.transforms.v2.RandomZoomOut."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from stoker.types import Size

from ...description import between
from ...state.transform_state import TransformState
from ..base import Transform


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

    def __post_init__(self) -> None:
        self.set_fill()
        self.set_range("side_range", 1, math.inf, "a pair of finite numbers, 1 <= low <= high")
        self.check_probability()

    def params(self, state: TransformState, u: npt.NDArray[np.float64]) -> None:
        """See :class:`Transform`."""
        state.use_fill(self.fill)
        factor = np.where(u[:, 0] < self.p, between(self.side_range, u[:, 1]), 1.0)
        size = (state.size * factor).astype(np.int64)
        state.crop(-((size - state.size) * u[:, :1:-1].T).astype(np.int64), size)

    def output_size(self, size: Size | None) -> Size | None:
        """See :class:`Transform`: None, for sizes differ from sample to sample."""
        return None
