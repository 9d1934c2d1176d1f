"""MixUp of images with boxes, as YOLO does it: two images as layers, with the objects of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ...formulas.dirichlet import symmetric_beta
from ...params.composition import WHOLE_SHARE
from ...state.transform_state import TransformState
from .base import SecondLayer


@dataclass(frozen=True)
class DetectionMixUp(SecondLayer):
    """Blend the image with another one of the epoch, and keep the objects of both.

    The other image passes through the transforms before this one with separate random numbers: after a
    :class:`DetectionMosaic` two mosaics are blended. Transforms of colours come after it.

    Args:
        alpha: The image's share follows Beta(alpha, alpha); more than 0. YOLO has 32, shares near a half.
        p: Probability that an image is blended.
        stop_epoch: First epoch without it; None for none.

    As MixUp in github.com/ultralytics/ultralytics, data/augment.py, after Zhang et al., "mixup: Beyond
    Empirical Risk Minimization", 2018.
    """

    alpha: float = 32.0
    p: float = 1.0
    stop_epoch: int | None = None

    layer: ClassVar[int] = 1
    draws: ClassVar[int] = 2

    def __post_init__(self) -> None:
        self.check_positive("alpha")
        self.check_probability()
        self.check_stop_epoch()

    def params(self, state: TransformState, u: npt.NDArray[np.float64]) -> None:
        """See :class:`Transform`."""
        share = np.rint((1 - symmetric_beta(self.alpha, u)) * WHOLE_SHARE).astype(np.int32)
        state.merge_layers(type(self).__name__, share)
