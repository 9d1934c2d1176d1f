"""Base of the transforms of whole batches, MixUp, CutMix and Mosaic, and of their parameters.

They act on the finished batch, after the engine. ``draw`` decides and returns parameters; each method of the
parameters changes one column of the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError
from stoker.types import DType, Layout, Size

from ..description import Description
from ..geometry.boxes import BoxFormat
from ..reference.reference import convert


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
