"""RandomErasing: torchvision.transforms.v2.RandomErasing with a constant value."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stoker.augment.transforms.area import ATTEMPTS, first_fit
from stoker.augment.transforms.base import Transform, as_tuple, is_finite

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from stoker.augment.frame import Frame

__all__ = ["RandomErasing"]


@dataclass(frozen=True)
class RandomErasing(Transform):
    """Overwrite a box of random area and aspect ratio (Zhong et al., 2017), with probability ``p``.

    Only Normalize, ToDtype and another RandomErasing may follow.

    Args:
        p: Probability.
        scale: Range of the box's area as a share of the image's, drawn uniformly.
        ratio: Range of its aspect ratio, height over width, drawn uniformly in the logarithm.
        value: One number, or three (RGB), in the units that pixels have where the transform stands:
            0..255, or 0..1 after ToDtype, or normalised after Normalize. Noise, torchvision's
            "random", is not offered.

    The law is torchvision's: the first of ten attempts that is smaller than the image in both
    directions is placed uniformly; if none is, nothing is erased.
    """

    p: float = 0.5
    scale: Sequence[float] = (0.02, 0.33)
    ratio: Sequence[float] = (0.3, 3.3)
    value: float | Sequence[float] = 0.0

    draws: ClassVar[int] = 2 * ATTEMPTS + 3
    late: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.check_probability()
        self.set_range("scale", 0, 1, "a pair of numbers, 0 <= low <= high <= 1")
        self.set_range("ratio", sys.float_info.min, math.inf, "a pair of finite numbers, 0 < low <= high")
        value = as_tuple(self.value, 3)
        good = len(value) == 3 and all(map(is_finite, value))
        self.check("value", good, "a finite number or three of them (RGB)")
        self.set("value", tuple(map(float, value)))

    def params(self, frame: Frame, u: npt.NDArray[np.float64]) -> None:
        """See :class:`Transform`."""
        # Width over height is as uniform in the logarithm as height over width.
        ratio = (1 / self.ratio[1], 1 / self.ratio[0])
        size, fits = first_fit(frame.size, (0, frame.size - 1), self.scale, ratio, u[:, 3:])
        size *= fits & (u[:, 0] < self.p)
        frame.erase((u[:, 1:3].T * (frame.size - size + 1)).astype(np.int64), size)
