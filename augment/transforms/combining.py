"""Transforms that make one image of several samples of the epoch: mosaics, MixUp and pasted objects."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from stoker.random import derive_key, hash_words, uniform

from ..params import WHOLE, WHOLE_SHARE, Parts, Paste
from ..state import TransformState
from .base import SMALLEST, Float, Int, Transform, as_pair, between, random_keys, symmetric_beta

_TILES = 4
_PARTNERS = -2_000_000
"""Position that keys the partners of the first transform of a list; the next ones have positions below it."""


@dataclass(frozen=True)
class Partners:
    """What decides the partners of an image's sample."""

    draws: int  # Number of draws of the epoch, among which partners are drawn uniformly
    seed: int  # Any integer
    key_epoch: int  # Epoch that keys random numbers
    epoch: int  # Number of the epoch
    shuffled: bool = True  # Whether neighbouring draws are not neighbours in the dataset

    def uniform(self, index: int, keys: Int, count: int) -> Float:
        """(M, count) random numbers of the transform at ``index`` of its list, for M keys."""
        return uniform(derive_key(self.seed, self.key_epoch, _PARTNERS - index), keys, count)

    def others(self, draw: Int, u: Float, buffer: int | None = None) -> Int:
        """Other draws of the epoch, (M, K), no two of a row the same."""
        # If there are too few draws, they may repeat.
        # draw (M,), u (M, K)
        count = u.shape[1]
        draws = self.draws if buffer is None else min(self.draws, buffer + 1)
        if draws <= count:
            return (u * draws).astype(np.int64)
        first = np.clip(draw + 1 - draws, 0, self.draws - draws)
        taken = (draw - first)[:, None]
        for k in range(count):
            # The number of a draw among the remaining draws becomes its number among all draws.
            chosen = (u[:, k] * (draws - 1 - k)).astype(np.int64)
            for before in np.sort(taken, axis=1).T:
                chosen += chosen >= before
            taken = np.column_stack((taken, chosen))
        return taken[:, 1:] + first[:, None]


@dataclass(frozen=True)
class Mosaic(Transform):
    """Show four images around a random centre of a canvas of twice the size, scaled and moved, as YOLO does.

    Each image is scaled so that it just fits the size, and has a corner at the centre. The sample itself is
    at the top left; three others of the epoch are at the other corners. The output is a window of the canvas,
    scaled by a random factor around the middle of the canvas, and moved. An image without partners lies in
    the middle. The others are drawn from the draws of the epoch, so they follow a sampler and the weights of
    a mixture, and do not depend on the batch or the rank. This transform must be the first of a list.

    Args:
        size: (height, width) of the output in pixels, or one number for a square.
        p: Probability that an image is a mosaic.
        center: Range of the centre, as a share of the canvas, 0 to 1; drawn uniformly for each axis.
        scale: Range of the factor, more than 0; drawn uniformly.
        translate: Largest shift, as a share of the output, 0 to 1, for each axis.
        stop_epoch: First epoch without mosaics, which YOLO calls ``epochs - close_mosaic``; None for none.
        fill: Level 0..255 or three of them (RGB) where no image lies.
        buffer: Number of draws before the sample's own, at least 3, from which the others are drawn, so that
            they are decoded once for several mosaics; None for all draws of the epoch. YOLO has 8 batches,
            but at most 1000. Without ``shuffle`` they are drawn from all draws, because the draws before
            would be neighbours in the dataset. With one or two ranks, the native engine keeps a quarter more
            samples decoded than this number, if they have at most 4 MiB of pixels.

    The geometry follows Mosaic and RandomPerspective in github.com/ultralytics/ultralytics, data/augment.py,
    in one resampling. ``RandomAffine`` may follow for rotation and shear.
    """

    size: int | Sequence[int]
    p: float = 1.0
    center: Sequence[float] = (0.25, 0.75)
    scale: Sequence[float] = (0.5, 1.5)
    translate: float = 0.1
    stop_epoch: int | None = None
    fill: int | Sequence[int] = 114
    buffer: int | None = 128

    draws: ClassVar[int] = 5
    sized: ClassVar[bool] = True
    layer_key: ClassVar[int | None] = None
    columns: ClassVar[frozenset[str]] = frozenset({"boxes", "keypoints", "masks", "segmentation"})

    def __post_init__(self) -> None:
        self.set_size()
        self.set_fill()
        self.check_probability()
        self.set_range("center", 0, 1, "a pair of numbers, 0 <= low <= high <= 1")
        self.set_range("scale", SMALLEST, math.inf, "a pair of finite numbers, 0 < low <= high")
        self.check_number("translate", "a share of the output, 0 to 1", 0, 1)
        self.set_whole("stop_epoch", 0, optional=True)
        self.set_whole("buffer", _TILES - 1, optional=True)

    def params(self, state: TransformState, u: Float) -> None:
        size = np.array(self.size, np.float64)[:, None]
        source = state.size.astype(np.float64)
        tile = np.full(len(u), WHOLE) if state.parts is None else state.parts.tile
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
        state.geometry.map_to_output(
            as_pair(self.size), (corner - size) * factor + shift, ratio * factor, *seen
        )


@dataclass(frozen=True)
class DetectionMixUp(Transform):
    """Blend the image with another one of the epoch, and keep the objects of both.

    The other image passes through the transforms before this one with separate random numbers: after a
    :class:`Mosaic` two mosaics are blended. Transforms of colours come after it. For labels of whole images
    there is :class:`MixUp`, which blends the finished images of a batch.

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
    layer_key: ClassVar[int] = 1
    columns: ClassVar[frozenset[str]] = frozenset({"boxes", "keypoints", "masks"})

    def __post_init__(self) -> None:
        self.check_positive("alpha")
        self.check_probability()
        self.set_whole("stop_epoch", 0, optional=True)

    def params(self, state: TransformState, u: Float) -> None:
        share = np.rint((1 - symmetric_beta(self.alpha, u)) * WHOLE_SHARE).astype(np.int32)
        state.merge_layers(type(self).__name__, share)


@dataclass(frozen=True)
class CopyPaste(Transform):
    """Paste some objects of another image of the epoch onto the image, with their masks.

    The other image passes through the transforms before this one with separate random numbers. Its crowds
    are not pasted, nor objects that a loader's ``min_visible`` and ``min_size`` drop. Where objects of the
    image are covered, their masks, boxes and areas shrink, and covered keypoints count as hidden. Transforms
    of colours come after it. The dataset needs instance masks.

    Args:
        p: Probability that objects are pasted onto an image.
        objects: Probability of each object of the other image to be pasted.
        min_left: Least share of an object's mask, 0 to 1, that must not be covered; else it is dropped.
        stop_epoch: First epoch without it; None for none.

    As in Ghiasi et al., "Simple Copy-Paste is a Strong Data Augmentation Method for Instance Segmentation",
    2021, with sharp edges: they found that blending them makes no difference.
    """

    p: float = 0.5
    objects: float = 0.5
    min_left: float = 0.1
    stop_epoch: int | None = None

    draws: ClassVar[int] = 1
    layer_key: ClassVar[int] = 2
    columns: ClassVar[frozenset[str]] = frozenset({"boxes", "keypoints", "masks"})

    def __post_init__(self) -> None:
        self.check_probability()
        self.check_probability("objects")
        self.check_number("min_left", "a share of a mask, 0 to 1", 0, 1)
        self.set_whole("stop_epoch", 0, optional=True)

    def params(self, state: TransformState, u: Float) -> None:
        state.merge_layers(type(self).__name__, np.full(len(u), WHOLE_SHARE, np.int32))
        state.paste = Paste(random_keys(u[:, 0]), float(self.objects), float(self.min_left))


Combining = Mosaic | DetectionMixUp | CopyPaste
"""The transforms that show several samples in one image.

:func:`add_parts` chooses the samples. ``params`` then acts on the parts: each part is one image of the state.
``layer_key`` keys the random numbers of the layer that a transform adds; a mosaic adds none. ``columns`` are
the columns of annotations that can follow it.
"""


def add_parts(transform: Combining, parts: Parts, index: int, partners: Partners) -> Parts:
    """Parts with those that a transform adds, by random numbers alone: a loader reads their samples."""
    if transform.stop_epoch is not None and partners.epoch >= transform.stop_epoch:
        return parts
    if isinstance(transform, Mosaic):
        u = partners.uniform(index, parts.keys, _TILES)
        chosen = u[:, 0] < transform.p
        copies = parts.take(np.repeat(np.flatnonzero(chosen), _TILES - 1))
        tiles = np.tile(np.arange(1, _TILES), int(chosen.sum()))
        buffer = transform.buffer if partners.shuffled else None
        draws = partners.others(parts.draw[chosen], u[chosen, 1:], buffer)
        others = replace(copies, tile=tiles, draw=draws.reshape(-1))
        return replace(parts, tile=np.where(chosen, 0, parts.tile)).joined(others)
    u = partners.uniform(index, parts.image_keys, 2)
    chosen = u[:, 0] < transform.p
    copies = parts.take(np.flatnonzero(chosen))
    keys = hash_words((transform.layer_key,), copies.keys).view(np.int64)
    draw = partners.others(copies.draw, u[chosen, 1:])[:, 0]
    return parts.joined(replace(copies, layer=copies.layer + 1, draw=draw, keys=keys))
