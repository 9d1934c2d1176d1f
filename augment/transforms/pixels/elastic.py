"""Elastic transform: torchvision.transforms.v2.ElasticTransform.

It acts on the pixels of the output, after all geometry, padding included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ...description import as_tuple, is_finite
from ...geometry.interpolation import WARPING
from ...state.transform_state import TransformState
from ...steps import Displace
from ..base import Transform

Float = npt.NDArray[np.float64]

_MAX_SIGMA = 1000


@dataclass(frozen=True)
class ElasticTransform(Transform):
    """Move each pixel by a smooth random field, as if the image were printed on rubber.

    :mod:`stoker.augment.formulas.displacement` says how the field is made: as torchvision's, it is uniform
    noise of -1 to 1, smoothed by a Gaussian, times half of ``alpha``. It is a function of seed, epoch,
    sample and pixel, the same in every engine that executes it. Crops and resizes must come before it.

    Class masks and masks of objects follow, by nearest. Keypoints and the corners of boxes move by the
    negated field at the pixel that holds them, which is near its inverse where the field is smooth; this is
    torchvision's approximation. A box becomes the upright box around its moved corners.

    Args:
        alpha: Strength, or a pair of them for x and y.
        sigma: Standard deviation of the Gaussian, or a pair of them for x and y, 0 to 1000 pixels. Large
            values make smoother and smaller displacements.
        interpolation: "bilinear" or "nearest", or torchvision's InterpolationMode.
        fill: Level 0..255 or three of them (RGB) outside of the image, as for :class:`stoker.augment.Pad`;
            None takes that of the transforms before (black).
    """

    alpha: float | Sequence[float] = 50.0
    sigma: float | Sequence[float] = 5.0
    interpolation: str | Enum = "bilinear"
    fill: int | Sequence[int] | None = None

    draws: ClassVar[int] = 1

    def __post_init__(self) -> None:
        alpha, sigma = as_tuple(self.alpha, 2), as_tuple(self.sigma, 2)
        good = len(alpha) == 2 and all(map(is_finite, alpha))
        self.check("alpha", good, "a finite number or a pair of them, for x and y")
        good = len(sigma) == 2 and all(is_finite(one) and 0 <= one <= _MAX_SIGMA for one in sigma)
        self.check("sigma", good, f"a number 0 to {_MAX_SIGMA} (pixels) or a pair of them, for x and y")
        self.set("alpha", tuple(map(float, alpha)))
        self.set("sigma", tuple(map(float, sigma)))
        self.set_interpolation(*WARPING)
        self.set_fill(optional=True)

    def params(self, state: TransformState, u: Float) -> None:
        """See :class:`Transform`."""
        state.use_fill(self.fill)
        state.fix_size(type(self).__name__)
        (alpha_x, alpha_y), (sigma_x, sigma_y) = as_tuple(self.alpha, 2), as_tuple(self.sigma, 2)
        red, green, blue = state.fill.tolist()
        step = Displace(
            where=np.ones(len(u), np.bool_),
            keys=(u[:, 0] * 2.0**53).astype(np.uint64),
            alpha=(alpha_x, alpha_y),
            sigma=(sigma_x, sigma_y),
            fill=(red, green, blue),
            nearest=self.interpolation == "nearest",
        )
        state.add_steps(step)
