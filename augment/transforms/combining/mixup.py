"""MixUp of images with boxes, as YOLO does it: two images as layers, with the objects of both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stoker.random import hash_words

from ...description import is_finite, is_whole
from ...dirichlet import symmetric_beta
from ...params.composition import WHOLE_SHARE
from .base import Combining

if TYPE_CHECKING:
    import numpy.typing as npt

    from ...params.parts import Parts
    from ...state.transform_state import TransformState
    from .base import Partners

__all__ = ["DetectionMixUp"]

_LAYER = 1
"""Word that keys the random numbers of a second layer."""


@dataclass(frozen=True)
class DetectionMixUp(Combining):
    """Blend the image with another one of the epoch, and keep the objects of both.

    The other image passes through the transforms before this one with random numbers of its own: after a
    :class:`DetectionMosaic` two mosaics are blended. Transforms of colours come behind it.

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

    draws: ClassVar[int] = 2
    layered: ClassVar[bool] = True
    columns: ClassVar[frozenset[str]] = frozenset({"boxes", "keypoints", "masks"})

    def __post_init__(self) -> None:
        self.check("alpha", is_finite(self.alpha) and self.alpha > 0, "a positive number")
        self.check_probability()
        known = self.stop_epoch is None or is_whole(self.stop_epoch)
        self.check("stop_epoch", known, "the number of an epoch, from 0, or None")

    def add_parts(self, parts: Parts, position: int, partners: Partners) -> Parts:
        """See :class:`Combining`."""
        if self.stop_epoch is not None and partners.epoch >= self.stop_epoch:
            return parts
        u = partners.uniform(position, parts.image_keys, 2)
        chosen = u[:, 0] < self.p
        copies = parts.take(np.flatnonzero(chosen))
        keys = hash_words((_LAYER,), copies.keys).view(np.int64)
        draw = partners.others(copies.draw, u[chosen, 1:])[:, 0]
        return parts.joined(replace(copies, layer=copies.layer + 1, draw=draw, keys=keys))

    def params(self, state: TransformState, u: npt.NDArray[np.float64]) -> None:
        """See :class:`Transform`."""
        share = np.rint((1 - symmetric_beta(self.alpha, u)) * WHOLE_SHARE).astype(np.int32)
        state.merge_layers(type(self).__name__, share)
