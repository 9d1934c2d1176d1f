"""The mosaic of YOLO: a random window of four images of the epoch around a random centre."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ...description import as_pair, between, is_finite, is_whole
from ...params.composition import WHOLE, Parts
from ...state.transform_state import TransformState
from ..base import SizedTransform
from .base import Partners, UntilEpoch

Float = npt.NDArray[np.float64]

_TILES = 4


@dataclass(frozen=True)
class DetectionMosaic(SizedTransform, UntilEpoch):
    """Show four images around a random centre of a canvas of twice the size, scaled and moved, as YOLO does.

    Each image is scaled so that it just fits the size, and has a corner at the centre. The sample itself is
    at the top left; three others of the epoch are at the top right, bottom left and bottom right. The
    output is a window of the canvas, scaled by a random factor around the middle of the canvas, and moved.
    An image without partners lies in the middle, and is scaled and moved in the same way.

    The others are drawn from the draws of the epoch, so they follow a sampler and the weights of a mixture,
    and do not depend on the batch or the rank. In a shuffled epoch the draws before the sample's own are a
    random choice of the whole dataset, and they are decoded once for several mosaics. This transform must be
    the first of a list.

    Args:
        size: (height, width) of the output in pixels, or one number for a square.
        p: Probability that an image is a mosaic.
        center: Range of the centre, as a share of the canvas, 0 to 1; drawn uniformly for each axis.
        scale: Range of the factor, more than 0; drawn uniformly.
        translate: Largest shift, as a share of the output, 0 to 1, for each axis.
        stop_epoch: First epoch without mosaics, which YOLO calls ``epochs - close_mosaic``; None for none.
        fill: Level 0..255 or three of them (RGB) where no image lies.
        buffer: Number of draws before the sample's own, at least 3, from which the others are drawn; None for
            all draws of the epoch. YOLO has 8 batches, but at most 1000. At the beginning of an epoch they
            are drawn from its first draws. Without ``shuffle`` they are drawn from all draws, because the
            draws before would be neighbours in the dataset. With ``BlockShuffle`` they are in the blocks that
            are read together. With one or two ranks, the native engine keeps a quarter more samples decoded
            than this number, if they have at most 4 MiB of pixels.

    The geometry is that of Mosaic and RandomPerspective in github.com/ultralytics/ultralytics,
    data/augment.py, without rotation and shear, in one resampling. ``RandomAffine`` may follow for these.
    """

    p: float = 1.0
    center: Sequence[float] = (0.25, 0.75)
    scale: Sequence[float] = (0.5, 1.5)
    translate: float = 0.1
    stop_epoch: int | None = None
    fill: int | Sequence[int] = 114
    buffer: int | None = 128

    draws: ClassVar[int] = 5
    columns: ClassVar[frozenset[str]] = frozenset({"boxes", "keypoints", "masks", "segmentation"})

    def __post_init__(self) -> None:
        self.set_size()
        self.set_fill()
        self.check_probability()
        self.set_range("center", 0, 1, "a pair of numbers, 0 <= low <= high <= 1")
        self.set_range("scale", sys.float_info.min, math.inf, "a pair of finite numbers, 0 < low <= high")
        share = is_finite(self.translate) and 0 <= self.translate <= 1
        self.check("translate", share, "a share of the output, 0 to 1")
        self.check_stop_epoch()
        known = self.buffer is None or (is_whole(self.buffer) and self.buffer >= _TILES - 1)
        self.check("buffer", known, "a number of draws, at least 3, or None")

    def add_parts(self, parts: Parts, index: int, partners: Partners) -> Parts:
        """See :class:`.base.Combining`."""
        if self.has_stopped(partners.epoch):
            return parts
        u = partners.uniform(index, parts.keys, _TILES)
        chosen = u[:, 0] < self.p
        copies = parts.take(np.repeat(np.flatnonzero(chosen), _TILES - 1))
        tiles = np.tile(np.arange(1, _TILES), int(chosen.sum()))
        draws = partners.others(parts.draw[chosen], u[chosen, 1:], self.buffer if partners.shuffled else None)
        others = replace(copies, tile=tiles, draw=draws.reshape(-1))
        return replace(parts, tile=np.where(chosen, 0, parts.tile)).joined(others)

    def params(self, state: TransformState, u: Float) -> None:
        """See :class:`Transform`."""
        size = np.array(self.size, np.float64)[:, None]
        source = state.size.astype(np.float64)
        tile = state.tiles()
        center = np.rint(2 * size * between(self.center, u[:, :2].T))
        ratio = (size / source).min(axis=0)
        extent = source * ratio
        lower = np.array((tile >= 2, tile % 2 == 1))  # below, and right of, the centre
        corner = np.where(lower, center, center - extent)
        corner = np.where(tile == WHOLE, size - extent / 2, corner)
        factor = between(self.scale, u[:, 2])
        shift = size * (0.5 + self.translate * (2 * u[:, 3:].T - 1))
        # The canvas' point c lies at (c - size) * factor + shift of the output.
        start = np.maximum(np.where(lower & (tile != WHOLE), center, corner), 0)
        stop = np.minimum(np.where(lower | (tile == WHOLE), corner + extent, center), 2 * size)
        seen = [np.rint((edge - size) * factor + shift) for edge in (start, stop)]
        state.use_fill(self.fill)
        state.map_to_output(as_pair(self.size), (corner - size) * factor + shift, ratio * factor, *seen)
