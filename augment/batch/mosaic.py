"""Mosaic: four images of a batch become one (Bochkovskiy et al., "YOLOv4", 2020).

YOLO puts four whole images around a random centre of a canvas of twice the size, and cuts and scales the
output out of the canvas with a random affine map. Here the output itself is divided into four tiles at a
random centre, and each tile shows a random window of an image at a random scale. Objects become about as
small, and are cut off about as often. Three things differ: the images are finished images of the same batch,
on the same rank; no part of the output is empty; and nothing is rotated or sheared (put a warp in the list of
transforms for that).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from PIL import Image

from stoker.random import derive_key, uniform
from stoker.types import Layout, Size

from ..description import between
from ..geometry.boxes import BoxFormat, convert_boxes
from .base import BatchParams, BatchTransform, Moved, from_float32, one_hot, to_float32

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]

_MOSAIC = -3
"""Index for ``derive_key``; MixUp and CutMix have -1 and -2."""
_TILES = 4
_LOWER = np.array(((0, 0), (0, 1), (1, 0), (1, 1)))
"""(below, right) of the centre, for each tile."""


@dataclass(frozen=True)
class Mosaic(BatchTransform):
    """Show windows of four images of the batch around a random centre, with probability ``p``.

    :class:`stoker.augment.DetectionMosaic` draws partners from the whole epoch, and runs in C++.
    The image itself is at the top left; its three partners are drawn from the batch, with replacement.

    Args:
        p: Probability.
        center: Range of the centre, as a share of height and width, 0 to 1; drawn uniformly for each axis.
        scale: Range of the magnification of each tile's image, more than 0, drawn uniformly. Bounds too small
            for the image to fill its tile are raised.
    """

    p: float = 1.0
    center: Sequence[float] = (0.25, 0.75)
    scale: Sequence[float] = (0.5, 1.0)

    columns: ClassVar[frozenset[str]] = frozenset({"label", "boxes", "keypoints", "masks", "segmentation"})

    def __post_init__(self) -> None:
        self.check_probability()
        self.set_range("center", 0, 1, "a pair of numbers, 0 <= low <= high <= 1")
        self.set_range("scale", sys.float_info.min, math.inf, "a pair of finite numbers, 0 < low <= high")

    def draw(self, samples: Int, size: Size, seed: int, epoch: int) -> MosaicParams:
        """Decide for a batch; see :class:`~stoker.augment.batch.base.BatchTransform`."""
        n = len(samples)
        # The numbers of a sample: p, centre (2), partners (3), scales (4), origins (8).
        u = uniform(derive_key(seed, epoch, _MOSAIC), samples, 18)
        extent = np.array(size)
        center = np.rint(extent * between(self.center, u[:, None, 1:3])).astype(np.int64)
        start = _LOWER * center
        tile = np.where(_LOWER, extent - center, center)
        least = (tile / extent).max(axis=-1)
        low, high = (np.maximum(bound, least) for bound in self.scale)
        scale = low + (high - low) * u[:, 6:10]
        window = np.minimum(tile / scale[..., None], extent)
        origin = u[:, 10:].reshape(n, _TILES, 2) * (extent - window)
        partner = np.concatenate((np.zeros((n, 1)), u[:, 3:6] * n), axis=1).astype(np.int64)
        partner[:, 0] = np.arange(n)
        region = np.concatenate((origin, origin + window), axis=-1)
        dest = np.concatenate((start, tile), axis=-1)
        alone = u[:, 0] >= self.p
        region[alone] = dest[alone] = 0
        region[alone, 0] = dest[alone, 0] = (0, 0, *size)
        return MosaicParams(size, partner, region, dest)


@dataclass(frozen=True)
class MosaicParams(BatchParams):
    """Which windows of which images become the tiles of N mosaics."""

    size: Size  # Height and width of all images, pixels
    partner: npt.NDArray[np.int64]  # (N, 4) int64, index in the batch of each tile's image
    region: npt.NDArray[np.float64]  # (N, 4, 4) float64, top, left, bottom, right of the window in it
    # (N, 4, 4) int64, top, left, height, width of the tile in the mosaic; tiles may be empty
    dest: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.partner)

    def images(self, images: npt.NDArray[Any], layout: Layout = "NCHW") -> npt.NDArray[Any]:
        """Tiles by Pillow's antialiased bilinear filter, which reads nothing outside the windows."""
        planes = images if layout == "NCHW" else images.transpose(0, 3, 1, 2)
        output = np.empty_like(planes)
        for i, t, target, region in self._tiles():
            for channel in range(planes.shape[1]):
                output[i, channel][target] = _resample(planes[self.partner[i, t], channel], region, target)
        return output if layout == "NCHW" else np.ascontiguousarray(output.transpose(0, 2, 3, 1))

    def labels(self, labels: npt.NDArray[Any], num_classes: int) -> npt.NDArray[np.float32]:
        """Each image's label in the share of the mosaic that shows it."""
        share = np.prod(self.dest[..., 2:], axis=-1) / np.prod(self.size)
        soft = one_hot(labels, num_classes)[self.partner]
        return np.asarray((share.astype(np.float32)[..., None] * soft).sum(axis=1))

    def boxes(
        self,
        boxes: npt.ArrayLike,
        owner: npt.NDArray[np.integer[Any]],
        box_format: BoxFormat = "XYXY",
        *,
        min_visible: float = 0.0,
        min_size: float = 0.0,
    ) -> Moved:
        """Boxes of each tile's image, clipped to the tile; see :class:`BatchParams`."""
        xyxy = convert_boxes(boxes, box_format, "XYXY").reshape(-1, 4)
        image, tile, origin = self._pairs(owner)
        low = self._to_mosaic(xyxy[origin, :2], image, tile)
        high = self._to_mosaic(xyxy[origin, 2:], image, tile)
        whole = np.prod(high - low, axis=1)
        start = self.dest[image, tile, 1::-1]
        stop = start + self.dest[image, tile, :1:-1]
        low, high = np.maximum(low, start), np.minimum(high, stop)
        extent = np.maximum(high - low, 0)
        seen = np.prod(extent, axis=1)
        share = np.divide(seen, whole, out=np.zeros_like(whole), where=whole > 0)
        keep = (share > 0) & (share >= min_visible) & np.all(extent >= min_size, axis=1)
        clipped = convert_boxes(np.concatenate((low, high), axis=1), "XYXY", box_format)
        area = np.prod(xyxy[origin, 2:] - xyxy[origin, :2], axis=1)
        scale = np.divide(seen, area, out=np.zeros_like(area), where=area > 0)
        return Moved(*(column[keep] for column in (clipped, image, origin, tile, scale)))

    def keypoints(self, keypoints: npt.ArrayLike, moved: Moved) -> Float:
        """Keypoints of the tiles; a point that its tile does not show is (0, 0, 0)."""
        points = np.asarray(keypoints, np.float64)[moved.origin]
        mapped = self._to_mosaic(points[..., :2], moved.owner[:, None], moved.tile[:, None])
        start = self.dest[moved.owner, moved.tile, None, 1::-1]
        stop = start + self.dest[moved.owner, moved.tile, None, :1:-1]
        seen = (points[..., 2] > 0) & np.all((mapped >= start) & (mapped <= stop), axis=-1)
        return np.where(seen[..., None], np.concatenate((mapped, points[..., 2:]), axis=-1), 0)

    def masks(self, masks: npt.NDArray[np.uint8], moved: Moved) -> npt.NDArray[np.uint8]:
        """Masks of the objects, zero outside of their tiles."""
        output = np.zeros((len(moved.origin), *self.size), np.uint8)
        for k, (i, t, origin) in enumerate(zip(moved.owner, moved.tile, moved.origin, strict=True)):
            target = _slices(self.dest[i, t])
            output[k][target] = _nearest(masks[origin], self.region[i, t], target)
        return output

    def segmentation(self, masks: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """See :class:`~stoker.augment.batch.base.BatchParams`."""
        output = np.empty_like(masks)
        for i, t, target, region in self._tiles():
            output[i][target] = _nearest(masks[self.partner[i, t]], region, target)
        return output

    def _tiles(self) -> list[tuple[int, int, tuple[slice, slice], Float]]:
        """Mosaic, tile, rows and columns in the mosaic, and window, of all tiles that are not empty."""
        shown = np.argwhere(self.dest[..., 2:].all(axis=-1)).tolist()
        return [(i, t, _slices(self.dest[i, t]), self.region[i, t]) for i, t in shown]

    def _pairs(self, owner: npt.NDArray[np.integer[Any]]) -> tuple[Int, Int, Int]:
        """Mosaic, tile and object, (P,) each, for each object of each image that a tile shows."""
        owner = np.asarray(owner, np.int64)
        order = np.argsort(owner, kind="stable")
        ends = np.searchsorted(owner[order], np.arange(len(self) + 1))
        shown = np.argwhere(self.dest[..., 2:].all(axis=-1))
        first = ends[self.partner[shown[:, 0], shown[:, 1]]]
        count = ends[self.partner[shown[:, 0], shown[:, 1]] + 1] - first
        within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        image, tile = shown.repeat(count, axis=0).T
        return image, tile, order[np.repeat(first, count) + within]

    def _to_mosaic(self, points: Float, image: Int, tile: Int) -> Float:
        """Points (x, y) of a tile's image, in the mosaic."""
        region, dest = self.region[image, tile], self.dest[image, tile]
        extent = region[..., 2:] - region[..., :2]
        scale = np.divide(dest[..., 2:], extent, out=np.ones_like(extent), where=extent > 0)
        return np.asarray(dest[..., 1::-1] + (points - region[..., 1::-1]) * scale[..., ::-1])


def _slices(dest: Int) -> tuple[slice, slice]:
    top, left, height, width = dest.tolist()
    return slice(top, top + height), slice(left, left + width)


def _resample(plane: npt.NDArray[Any], region: Float, target: tuple[slice, slice]) -> npt.NDArray[Any]:
    """The window ``region`` of one channel, (H, W), at the size of ``target``."""
    top, left = np.floor(region[:2]).astype(np.int64).tolist()
    bottom, right = np.ceil(region[2:]).astype(np.int64).tolist()
    window = plane[top:bottom, left:right]
    rows, columns = target
    size = (columns.stop - columns.start, rows.stop - rows.start)
    box = (region[1] - left, region[0] - top, region[3] - left, region[2] - top)
    pixels = window if window.dtype == np.uint8 else to_float32(window)
    # Pillow's mode "L" holds uint8, and "F" float32.
    image = Image.fromarray(np.ascontiguousarray(pixels))
    resized = np.asarray(image.resize(size, Image.Resampling.BILINEAR, box))
    return resized if plane.dtype == np.uint8 else from_float32(resized, plane.dtype)


def _nearest(mask: npt.NDArray[Any], region: Float, target: tuple[slice, slice]) -> npt.NDArray[Any]:
    """The window ``region`` of a mask, (H, W), at the size of ``target``: the nearest pixel's value."""
    at = []
    for axis, span in enumerate(target):
        size = span.stop - span.start
        step = (region[2 + axis] - region[axis]) / size
        source = np.floor(region[axis] + (np.arange(size) + 0.5) * step).astype(np.int64)
        at.append(source.clip(0, mask.shape[axis] - 1))
    return np.asarray(mask[np.ix_(*at)])
