"""CoverCrop: a resize that covers a size, and a crop of that size, as buckets of aspect ratios need them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ...state.transform_state import TransformState
from ..base import SizedTransform


@dataclass(frozen=True)
class CoverCrop(SizedTransform):
    """Resize the image until it just covers a size, and cut out that size. The aspect ratio stays.

    Args:
        size: (height, width) of the output in pixels, or one number for a square.
        random: Whether the crop lies at a uniform location; otherwise it is the centre, rounded down.
        interpolation: As for :class:`stoker.augment.Resize`.

    The resized side that exceeds the size is rounded to whole pixels.
    """

    random: bool = True
    interpolation: str | Enum = "bilinear"

    draws: ClassVar[int] = 2

    def __post_init__(self) -> None:
        self.set_size()
        self.check("random", isinstance(self.random, bool), "True or False")
        self.set_interpolation()
        self.set("draws", 2 if self.random else 0)

    def params(self, state: TransformState, u: npt.NDArray[np.float64]) -> None:
        """See :class:`Transform`."""
        size = np.array(self.size)[:, None]
        scale = (size / state.size).max(axis=0)
        resized = np.maximum(np.rint(state.size * scale).astype(np.int64), size)
        state.resize(resized, self.interpolation)
        margin = resized - size
        state.crop((u.T * (margin + 1)).astype(np.int64) if self.random else margin // 2, size)
