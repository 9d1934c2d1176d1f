"""The parts that images made of several samples consist of, decided before any sample is looked at."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

Int = npt.NDArray[np.int64]

__all__ = ["WHOLE", "Parts"]

WHOLE = -1
"""The tile of a part that is no tile of a mosaic."""


@dataclass(frozen=True, eq=False)
class Parts:
    """P parts of N images, by image and layer. A part is what an image shows of one sample.

    Transforms that combine samples, such as DetectionMosaic, replace and add parts. A loader then finds the
    sample of each part, and an engine draws the parts of an image on one canvas.

    Attributes:
        image: (P,) int64, position in the batch of the image, ascending from 0.
        layer: (P,) int64, layer of the image, ascending within it from 0.
        tile: (P,) int64, tile of the layer's mosaic, 0 to 3, or ``WHOLE``.
        draw: (P,) int64, draw of the epoch whose sample is shown.
        keys: (P,) int64, keys of random numbers until layers are merged. Each layer has its own.
        image_keys: (P,) int64, keys of the image's random numbers, from there on.
    """

    image: Int
    layer: Int
    tile: Int
    draw: Int
    keys: Int
    image_keys: Int

    @classmethod
    def of(cls, keys: Int, draws: Int | None = None) -> Parts:
        """N images that show one sample each.

        Args:
            keys: (N,), keys of their random numbers.
            draws: (N,), draws of their samples; None where no partners are drawn.
        """
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
