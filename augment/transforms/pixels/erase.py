"""RandomErasing: torchvision.transforms.v2.RandomErasing."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ...description import as_tuple, is_finite
from ...state.transform_state import TransformState
from ..base import Transform
from ..geometry.area import ATTEMPTS, first_fit
from .output import Form


@dataclass(frozen=True)
class RandomErasing(Transform):
    """Overwrite a box of random area and aspect ratio (Zhong et al., 2017), with probability ``p``.

    Only Normalize, ToDtype and RandomErasing may follow.

    Args:
        p: Probability.
        scale: Range of the box's area as a share of the image's, drawn uniformly.
        ratio: Range of its aspect ratio, height over width, drawn uniformly in the logarithm.
        value: One number, or one for each channel, in the units of the pixels where the transform stands:
            0..255, or 0..1 after ToDtype, or normalised after Normalize. Or "random": normal noise of mean 0
            and deviation 1 in these units, for each pixel and channel, which suits normalised images;
            :mod:`stoker.augment.formulas.noise` says how it is drawn.

    The distribution is torchvision's: a size is drawn up to ten times, and the first one that is smaller than
    the image in both directions gets a uniform location; if none is, nothing is erased.
    """

    p: float = 0.5
    scale: Sequence[float] = (0.02, 0.33)
    ratio: Sequence[float] = (0.3, 3.3)
    value: float | Sequence[float] | str = 0.0

    draws: ClassVar[int] = 2 * ATTEMPTS + 4
    late: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.check_probability()
        self.set_range("scale", 0, 1, "a pair of numbers, 0 <= low <= high <= 1")
        self.set_range("ratio", sys.float_info.min, math.inf, "a pair of finite numbers, 0 < low <= high")
        if isinstance(self.value, str) and self.value == "random":
            return
        value = as_tuple(self.value, 3)
        good = len(value) > 0 and all(map(is_finite, value))
        self.check("value", good, 'a finite number or one for each channel, or "random"')
        self.set("value", tuple(map(float, value)))

    def params(self, state: TransformState, u: npt.NDArray[np.float64]) -> None:
        """See :class:`Transform`."""
        # The logarithm of width over height is as uniform as that of height over width.
        ratio = (1 / self.ratio[1], 1 / self.ratio[0])
        size, fits = first_fit(state.size, (0, state.size - 1), self.scale, ratio, u[:, 3:-1])
        size *= fits & (u[:, 0] < self.p)
        keys = (u[:, -1] * 2.0**53).astype(np.uint64) if self.value == "random" else None
        state.erase((u[:, 1:3].T * (state.size - size + 1)).astype(np.int64), size, keys)

    def values(self, form: Form) -> npt.NDArray[np.float64]:
        """The value of boxes, and this value plus the standard deviation of the noise.

        Args:
            form: Form of the images at the transform's index in the list.

        Returns:
            (2, C).

        Raises:
            ConfigError: The value has more or fewer numbers than the images have channels.
        """
        if isinstance(self.value, str):
            return np.array([np.zeros(len(form.scale)), np.ones(len(form.scale))])
        return np.tile(form.per_channel("RandomErasing: value", as_tuple(self.value, 3)), (2, 1))
