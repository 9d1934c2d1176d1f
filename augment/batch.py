"""Transforms of whole batches: MixUp, CutMix and Mosaic."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt
from PIL import Image

from stoker.errors import ConfigError
from stoker.random import derive_key, uniform
from stoker.types import DType, Layout, Size

from .description import Description, added, between
from .distributions import symmetric_beta
from .geometry.boxes import BoxFormat, convert_boxes
from .reference import convert


@dataclass(frozen=True)
class BatchTransform(Description):
    """Base of all transforms of batches.

    Attributes:
        columns: Columns of a batch, besides "image", that it can treat: some of "label", "boxes" (with
            all columns that belong to boxes), "keypoints", "masks" and "segmentation".
    """

    columns: ClassVar[frozenset[str]] = frozenset()

    def draw(self, samples: npt.NDArray[np.int64], size: Size, seed: int, epoch: int) -> BatchParams:
        """Decide for a batch: a pure function of its arguments.

        Args:
            samples: (N,) int64, keys of each sample's random numbers, as for ``ImagePlan.draw``.
            size: Height and width of the batch's images, pixels.
            seed: Any integer.
            epoch: Any integer.
        """
        raise NotImplementedError


class BatchParams:
    """What was decided for N samples; each method treats one column and returns a new array.

    A transform needs only the methods of the columns that it names.
    """

    def images(self, images: npt.NDArray[Any], layout: Layout = "NCHW") -> npt.NDArray[Any]:
        """Images, (N, ...) in ``layout``: uint8 or a float dtype; uint16 holds the bits of bfloat16."""
        raise NotImplementedError

    def labels(self, labels: npt.NDArray[Any], num_classes: int) -> npt.NDArray[np.float32]:
        """Soft labels, (N, num_classes) float32."""
        # labels (N,)
        raise NotImplementedError

    def boxes(
        self,
        boxes: npt.ArrayLike,
        owner: npt.NDArray[np.integer[Any]],
        box_format: BoxFormat = "XYXY",
        *,
        min_visible: float = 0.0,
        min_size: float = 0.0,
    ) -> Moved:
        """Boxes, which may lie in several of the new images or in none."""
        # boxes (M, 4), owner (M,)
        raise NotImplementedError

    def keypoints(self, keypoints: npt.ArrayLike, moved: Moved) -> npt.NDArray[np.float64]:
        """Keypoints, (M, K, 3) as in COCO, of the objects that :meth:`boxes` has moved: (L, K, 3)."""
        raise NotImplementedError

    def masks(self, masks: npt.NDArray[np.uint8], moved: Moved) -> npt.NDArray[np.uint8]:
        """Masks, (M, H, W), 0 outside, of the objects that :meth:`boxes` has moved: (L, H, W)."""
        raise NotImplementedError

    def segmentation(self, masks: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Masks of classes, (N, H, W) integers; each pixel takes the value of the nearest pixel it shows."""
        raise NotImplementedError


@dataclass(frozen=True)
class Moved:
    """L objects of the new images, in the order of these images."""

    boxes: npt.NDArray[np.float64]  # (L, 4) float64, in the format of the input
    owner: npt.NDArray[np.int64]  # (L,) int64, index in the batch of the image that shows the object
    # (L,) int64, index of the object in the input, by which its labels are looked up
    origin: npt.NDArray[np.int64]
    tile: npt.NDArray[np.int64]  # (L,) int64, which tile of its new image shows it
    area_scale: npt.NDArray[np.float64]  # (L,) float64, visible area of the box over its area in the input


def one_hot(labels: npt.NDArray[Any], num_classes: int) -> npt.NDArray[np.float32]:
    """Labels as (N, num_classes) float32; see :meth:`BatchParams.labels`."""
    if labels.ndim == 2 and labels.shape[1] == num_classes:
        return labels.astype(np.float32)
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise ConfigError(
            f"labels must be (N,) integers or (N, {num_classes}); found {labels.dtype} of {labels.shape}"
        )
    outside = (labels < 0) | (labels >= num_classes)
    if outside.any():
        raise ConfigError(f"labels must lie within 0 to {num_classes - 1}; found {labels[outside][0]}")
    hot = np.zeros((len(labels), num_classes), np.float32)
    hot[np.arange(len(labels)), labels] = 1
    return hot


def to_float32(pixels: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Pixels as float32: from any float dtype, from uint8, or from the bits of bfloat16 in uint16."""
    if pixels.dtype == np.uint16:
        return (pixels.astype(np.uint32) << 16).view(np.float32)
    return pixels.astype(np.float32, copy=False)


def from_float32(values: npt.NDArray[np.float32], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The inverse of :func:`to_float32`, rounded as :func:`convert` does."""
    if dtype == np.float32:
        return values
    return convert(values, cast("DType", "bfloat16" if dtype == np.uint16 else dtype.name))


Samples = npt.NDArray[np.int64]

_MIXUP, _CUTMIX = -1, -2
"""Positions for ``derive_key``, below those of any list of transforms."""


@dataclass(frozen=True)
class MixParams(BatchParams):
    """How N images and their labels are mixed with those of other samples in the batch."""

    partner: npt.NDArray[np.int64]  # (N,) int64, index in the batch of the other sample
    share: npt.NDArray[np.float32]  # (N,) float32, weight of the image's own pixels, outside of ``box``
    # (N, 4) int32, top, left, height, width of the box in which the partner's pixels replace the image's own
    box: npt.NDArray[np.int32]
    label_share: npt.NDArray[np.float32]  # (N,) float32, weight of the sample's own label

    def __len__(self) -> int:
        return len(self.partner)

    def images(self, images: npt.NDArray[Any], layout: Layout = "NCHW") -> npt.NDArray[Any]:
        """Mix pixels, computed in float32; see :class:`~stoker.augment.batch.BatchParams`."""
        mixed: npt.NDArray[Any] = images.copy()
        for i in np.flatnonzero(self.share < 1).tolist():
            first, second = to_float32(images[i]), to_float32(images[self.partner[i]])
            mixed[i] = from_float32(self.share[i] * first + (1 - self.share[i]) * second, images.dtype)
        for i, rows, columns in self._boxes():
            box = np.s_[:, rows, columns] if layout == "NCHW" else np.s_[rows, columns]
            mixed[i][box] = images[self.partner[i]][box]
        return mixed

    def labels(self, labels: npt.NDArray[Any], num_classes: int) -> npt.NDArray[np.float32]:
        """Labels in the shares of ``label_share``; see :class:`~stoker.augment.batch.BatchParams`."""
        soft = one_hot(labels, num_classes)
        share = self.label_share[:, None]
        return np.asarray(share * soft + (1 - share) * soft[self.partner])

    def segmentation(self, masks: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Masks, in which CutMix replaces the same boxes as in images; see :class:`BatchParams`."""
        mixed: npt.NDArray[Any] = masks.copy()
        for i, rows, columns in self._boxes():
            mixed[i, rows, columns] = masks[self.partner[i], rows, columns]
        return mixed

    def _boxes(self) -> list[tuple[int, slice, slice]]:
        boxes = enumerate(self.box.tolist())
        return [(i, slice(top, top + h), slice(left, left + w)) for i, (top, left, h, w) in boxes]


@dataclass(frozen=True)
class MixUp(BatchTransform):
    """Add two images, and their labels, in shares that follow Beta(alpha, alpha) (Zhang et al., 2018).

    Args:
        alpha: Parameter of the Beta distribution, more than 0; 1 for uniform shares.
        p: Probability that a sample is mixed.
    """

    alpha: float = 1.0
    p: float = added(1.0)

    columns: ClassVar[frozenset[str]] = frozenset({"label"})

    def __post_init__(self) -> None:
        self.check_positive("alpha")
        self.check_probability()

    def draw(self, samples: Samples, size: Size, seed: int, epoch: int) -> MixParams:
        """Decide for a batch; see :class:`~stoker.augment.batch.BatchTransform`.

        The partner is the sample before, as in torchvision; that of the first sample is the last one.
        """
        del size  # CutMix needs it, and both have the same signature
        n = len(samples)
        u = uniform(derive_key(seed, epoch, _MIXUP), samples, 3)
        share = np.where(u[:, 2] < self.p, symmetric_beta(self.alpha, u), 1).astype(np.float32)
        return MixParams(_before(n), share, np.zeros((n, 4), np.int32), share)


@dataclass(frozen=True)
class CutMix(BatchTransform):
    """Replace a box of the image by the same box of another image (Yun et al., 2019).

    The box has the image's aspect ratio. Its area, as a share of the image's and before the box is cut at the
    border, follows Beta(alpha, alpha); its centre is uniform. The label's share is that of the pixels.

    Args:
        alpha: Parameter of the Beta distribution; 1 for uniform shares.
        p: Probability that a sample is mixed.
    """

    alpha: float = 1.0
    p: float = added(1.0)

    columns: ClassVar[frozenset[str]] = frozenset({"label", "segmentation"})

    def __post_init__(self) -> None:
        self.check_positive("alpha")
        self.check_probability()

    def draw(self, samples: Samples, size: Size, seed: int, epoch: int) -> MixParams:
        """Decide for a batch; see :meth:`MixUp.draw`."""
        u = uniform(derive_key(seed, epoch, _CUTMIX), samples, 5)
        extent = np.array(size)
        center = (u[:, 2:4] * extent).astype(np.int64)
        half = (0.5 * np.sqrt(1 - symmetric_beta(self.alpha, u))[:, None] * extent).astype(np.int64)
        half[u[:, 4] >= self.p] = 0
        start, stop = np.maximum(center - half, 0), np.minimum(center + half, extent)
        box = np.concatenate((start, stop - start), axis=1).astype(np.int32)
        label_share = 1 - np.prod(stop - start, axis=1) / np.prod(extent)
        n = len(samples)
        return MixParams(_before(n), np.ones(n, np.float32), box, label_share.astype(np.float32))


def _before(n: int) -> npt.NDArray[np.int64]:
    return np.roll(np.arange(n, dtype=np.int64), 1)


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
        """Decide for a batch; see :class:`~stoker.augment.batch.BatchTransform`."""
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
        """See :class:`~stoker.augment.batch.BatchParams`."""
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


@dataclass(frozen=True)
class AllColumns:
    """A function of your own that takes a whole batch, at the end of a loader's transforms.

    ``function(batch)`` gets the named tuple that the loader would hand out, in the framework's arrays, and
    returns it with changed columns: ``batch._replace(image=..., boxes=...)``. It runs on the loader's
    background thread. ``loader.element_spec()`` describes the columns before it.

    Args:
        function: The function. States of loaders hold its name.
    """

    function: Callable[[Any], Any]

    def __post_init__(self) -> None:
        if not callable(self.function) or isinstance(self.function, type):
            raise ConfigError(
                f"AllColumns takes a function of a batch; found {self.function!r}",
                hint="Write AllColumns(change), where change(batch) returns batch._replace(...).",
            )

    def __call__(self, batch: Any) -> Any:
        """The batch that the function returns; ConfigError if it returns something else."""
        changed = self.function(batch)
        if type(changed) is not type(batch):
            name = getattr(self.function, "__qualname__", repr(self.function))
            raise ConfigError(
                f"{name} must return the batch, a named tuple with the columns {', '.join(batch._fields)}; "
                f"it has returned {type(changed).__name__}",
                hint="Return batch._replace(image=...), or the batch itself.",
            )
        return changed
