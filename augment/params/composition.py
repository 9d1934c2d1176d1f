"""The composition of images of several samples: parts, layers and masks, as an engine gets them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

__all__ = ["WHOLE_SHARE", "Composition", "Paste"]

WHOLE_SHARE = 1 << 16
"""The share of a layer that hides the layers below it."""


def _no_masks() -> npt.NDArray[np.uint8]:
    return np.zeros(0, np.uint8)


@dataclass(frozen=True, eq=False)
class Paste:
    """What decides the objects of upper layers that are pasted. Engines get their masks alone.

    Attributes:
        keys: (P,) uint64, keys of the choice of objects.
        share: Probability of each object.
        min_left: Least share of the mask of a lower object that must not be covered.
    """

    keys: npt.NDArray[np.uint64]
    share: float
    min_left: float


@dataclass(frozen=True, eq=False)
class Composition:
    """How P parts, which show one sample each, become N images.

    The rows of the parameters are those of the parts. For each image, in this order: a canvas is filled with
    ``fill``; each part of layer 0 is resampled onto its rectangle of the canvas and leaves the rest as it is;
    each further layer is made in the same way on a canvas of its own, and is merged with what is below it;
    steps, ``color`` and boxes to erase of the image's first part follow. A warped part is seen at the pixels
    whose centres the warp maps into the part's rectangle.

    Attributes:
        image: (P,) int32, position of the image, ascending from 0 without gaps.
        shown: (P,) bool, True for parts that are seen at least partly. The samples of others are not read.
        layer: (P,) uint8, ascending within an image from 0 without gaps.
        share: (P,) int32, weight of the layer, s of 65536. A pixel a below and b of the layer become
            ``((65536 - s) * a + s * b + 32768) >> 16``.
        mask: (P,) int32, the mask whose pixels the layer replaces, without regard to ``share``; -1 for none.
        masks: (K * H * W,) uint8, K masks of the output's size. The layer replaces pixels that are not 0.
        paste: What decides the objects to paste, whose masks the loader draws; None where layers are merged
            by their shares. Engines ignore it.
    """

    image: npt.NDArray[np.int32]
    shown: npt.NDArray[np.bool_]
    layer: npt.NDArray[np.uint8]
    share: npt.NDArray[np.int32]
    mask: npt.NDArray[np.int32]
    masks: npt.NDArray[np.uint8] = field(default_factory=_no_masks)
    paste: Paste | None = None

    @property
    def count(self) -> int:
        """N, the number of images."""
        return int(self.image[-1]) + 1 if len(self.image) else 0

    @property
    def first(self) -> npt.NDArray[np.int64]:
        """(N,) int64, the first part of each image."""
        return np.flatnonzero(np.diff(self.image, prepend=-1))
