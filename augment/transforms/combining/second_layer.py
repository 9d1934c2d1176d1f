"""Base of the transforms that lay another image of the epoch over an image."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stoker.random import hash_words

from .base import UntilEpoch

if TYPE_CHECKING:
    from ...params.parts import Parts
    from .base import Partners

__all__ = ["SecondLayer"]


class SecondLayer(UntilEpoch):
    """Base of transforms that give some images a second layer, which passes through the transforms before.

    Attributes:
        layer: Word that keys the random numbers of the second layer; each subclass has another one.
        p: Probability of a second layer.
    """

    layer: ClassVar[int]
    p: float

    layered: ClassVar[bool] = True
    columns: ClassVar[frozenset[str]] = frozenset({"boxes", "keypoints", "masks"})

    def add_parts(self, parts: Parts, position: int, partners: Partners) -> Parts:
        """See :class:`.base.Combining`."""
        if self.has_stopped(partners.epoch):
            return parts
        u = partners.uniform(position, parts.image_keys, 2)
        chosen = u[:, 0] < self.p
        copies = parts.take(np.flatnonzero(chosen))
        keys = hash_words((self.layer,), copies.keys).view(np.int64)
        draw = partners.others(copies.draw, u[chosen, 1:])[:, 0]
        return parts.joined(replace(copies, layer=copies.layer + 1, draw=draw, keys=keys))
