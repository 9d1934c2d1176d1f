"""Objects of another image pasted with their masks, as in "Simple Copy-Paste" (Ghiasi et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stoker.random import hash_words

from ...description import is_finite, is_whole
from ...params.composition import WHOLE_SHARE, Paste
from .base import Combining

if TYPE_CHECKING:
    import numpy.typing as npt

    from ...params.parts import Parts
    from ...state.transform_state import TransformState
    from .base import Partners

__all__ = ["CopyPaste"]

_LAYER = 2
"""Word that keys the random numbers of the layer of pasted objects; that of DetectionMixUp is 1."""


@dataclass(frozen=True)
class CopyPaste(Combining):
    """Paste some objects of another image of the epoch onto the image, with their masks.

    The other image passes through the transforms before this one with random numbers of its own, such as
    ``ScaleJitter``, a crop and a flip. Its crowds are not pasted, nor objects that a loader's ``min_visible``
    and ``min_size`` drop. The image's own objects lose what is covered: their masks, and with them their
    boxes and areas, become smaller, and covered keypoints count as hidden. Objects of which too little is
    left are dropped. Transforms of colours come behind it. The dataset needs masks of objects.

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

    draws: ClassVar[int] = 1
    layered: ClassVar[bool] = True
    columns: ClassVar[frozenset[str]] = frozenset({"boxes", "keypoints", "masks"})

    def __post_init__(self) -> None:
        self.check_probability()
        self.check_probability("objects")
        share = is_finite(self.min_left) and 0 <= self.min_left <= 1
        self.check("min_left", share, "a share of a mask, 0 to 1")
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
        state.merge_layers(type(self).__name__, np.full(len(u), WHOLE_SHARE, np.int32))
        keys = (u[:, 0] * 2.0**53).astype(np.uint64)
        state.paste = Paste(keys, float(self.objects), float(self.min_left))
