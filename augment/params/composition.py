"""Images of several samples: their parts, which are decided first, and the composition of these parts."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import numpy as np
import numpy.typing as npt

Int = npt.NDArray[np.int64]

WHOLE = -1
"""The tile of a part that is no tile of a mosaic."""

WHOLE_SHARE = 1 << 16
"""The share of a layer that hides the layers below it."""


@dataclass(frozen=True, eq=False)
class Parts:
    """P parts of N images, by image and layer. A part is what an image shows of one sample.

    Transforms that combine samples, such as DetectionMosaic, replace and add parts. A loader then finds the
    sample of each part, and an engine draws the parts of an image on one canvas.
    """

    image: Int  # (P,) int64, index in the batch of the image, ascending from 0
    layer: Int  # (P,) int64, layer of the image, ascending within it from 0
    tile: Int  # (P,) int64, tile of the layer's mosaic, 0 to 3, or ``WHOLE``
    draw: Int  # (P,) int64, draw of the epoch whose sample is shown
    keys: Int  # (P,) int64, keys of random numbers until layers are merged. Each layer has its own
    image_keys: Int  # (P,) int64, keys of the image's random numbers after that

    @classmethod
    def of(cls, keys: Int, draws: Int | None = None) -> Parts:
        """N images that show one sample each."""
        # keys (N,), draws (N,)
        n = len(keys)
        zeros = np.zeros(n, np.int64)
        return cls(np.arange(n), zeros, np.full(n, WHOLE), zeros if draws is None else draws, keys, keys)

    def __len__(self) -> int:
        return len(self.image)

    def take(self, rows: Int) -> Parts:
        """The parts at ``rows``, (M,)."""
        return replace(self, **{one.name: getattr(self, one.name)[rows] for one in fields(self)})

    def joined(self, others: Parts) -> Parts:
        """These and other parts of the same images, in their order."""
        pairs = ((getattr(self, one.name), getattr(others, one.name)) for one in fields(self))
        both = Parts(*map(np.concatenate, pairs))
        return both.take(np.lexsort((both.tile, both.layer, both.image)))


@dataclass(frozen=True, eq=False)
class Paste:
    """The rule by which objects of upper layers are pasted. Engines get only the masks of these objects."""

    keys: npt.NDArray[np.uint64]  # (P,) uint64, keys of the choice of objects
    share: float  # Probability of each object
    min_left: float  # Least share of the mask of a lower object that must not be covered


@dataclass(frozen=True, eq=False)
class Composition:
    """How P parts, which show one sample each, become N images.

    The rows of the parameters are those of the parts. For each image, in this order: a canvas is filled with
    ``fill``; each part of layer 0 is resampled onto its rectangle of the canvas and leaves the rest as it is;
    each further layer is made in the same way on its own canvas and merged with the layers below;
    steps, ``color`` and boxes to erase of the image's first part follow. A warped part is seen at the pixels
    whose centres the warp maps into the part's rectangle.
    """

    image: npt.NDArray[np.int32]  # (P,) int32, index of the image, ascending from 0 without gaps
    # (P,) bool, True for parts that are seen at least partly. The samples of others are not read
    shown: npt.NDArray[np.bool_]
    layer: npt.NDArray[np.uint8]  # (P,) uint8, ascending within an image from 0 without gaps
    share: npt.NDArray[np.int32]  # (P,) int32, weight s of the layer, in 65536ths
    # (P,) int32, the mask whose pixels the layer replaces, without regard to ``share``; -1 for none
    mask: npt.NDArray[np.int32]
    # (K * H * W,) uint8, K masks of the output's size. The layer replaces pixels that are not 0
    masks: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    paste: Paste | None = None  # The rule for the objects to paste, whose masks the loader draws

    @property
    def count(self) -> int:
        """N, the number of images."""
        return int(self.image[-1]) + 1 if len(self.image) else 0

    @property
    def first(self) -> npt.NDArray[np.int64]:
        """(N,) int64, the first part of each image."""
        return np.flatnonzero(np.diff(self.image, prepend=-1))
