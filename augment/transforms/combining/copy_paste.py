"""Objects of another image pasted with their masks, as in "Simple Copy-Paste" (Ghiasi et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ...description import is_finite
from ...params.composition import WHOLE_SHARE, Paste
from ...state.transform_state import TransformState
from .base import SecondLayer


@dataclass(frozen=True)
class CopyPaste(SecondLayer):
    """Paste some objects of another image of the epoch onto the image, with their masks.

    The other image passes through the transforms before this one with separate random numbers, such as
    ``ScaleJitter``, a crop and a flip. Its crowds are not pasted, nor objects that a loader's ``min_visible``
    and ``min_size`` drop. Where objects of the image are covered, their masks, boxes and areas shrink, and
    covered keypoints count as hidden. An object is dropped if too little of it is left. Transforms of colours
    come after it. The dataset needs masks of objects.

    Args:
        p: Probability that objects are pasted onto an image.
        objects: Probability of each object of the other image to be pasted.
        min_left: Least share of an object's mask, 0 to 1, that must not be covered.
        stop_epoch: First epoch without it; None for none.

    As in Ghiasi et al., "Simple Copy-Paste is a Strong Data Augmentation Method for Instance Segmentation",
    2021, with sharp edges: they found that blending them makes no difference.
    """

    p: float = 0.5
    objects: float = 0.5
    min_left: float = 0.1
    stop_epoch: int | None = None

    layer: ClassVar[int] = 2
    draws: ClassVar[int] = 1

    def __post_init__(self) -> None:
        self.check_probability()
        self.check_probability("objects")
        share = is_finite(self.min_left) and 0 <= self.min_left <= 1
        self.check("min_left", share, "a share of a mask, 0 to 1")
        self.check_stop_epoch()

    def params(self, state: TransformState, u: npt.NDArray[np.float64]) -> None:
        """See :class:`Transform`."""
        state.merge_layers(type(self).__name__, np.full(len(u), WHOLE_SHARE, np.int32))
        keys = (u[:, 0] * 2.0**53).astype(np.uint64)
        state.paste = Paste(keys, float(self.objects), float(self.min_left))
