"""The way back: boxes, keypoints and masks of an output, such as predictions, in the pixels of its source.

A matrix of a batch's column ``to_source`` leads from homogeneous (x, y, 1) in the output to the source. In
both, edges of pixels are integers: the centre of the first pixel is (0.5, 0.5). The source is the image that
was converted, after its EXIF orientation has been applied; the conversion may have stored it in another size.
Users call these functions on what a model returns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

from ..resampling import apply_matrix, held_pixels
from .boxes import BoxFormat, convert_boxes, corners

Float = npt.NDArray[np.float64]


def to_source(
    boxes: npt.ArrayLike,
    matrix: npt.ArrayLike,
    *,
    box_format: BoxFormat = "XYXY",
    size: npt.ArrayLike | None = None,
) -> Float:
    """Boxes of an output in the pixels of its source; ConfigError where shapes do not fit.

    Args:
        boxes: (..., M, 4), pixels of the output, in ``box_format``. A tensor of PyTorch must be on the CPU.
        matrix: (..., 3, 3), of the column ``to_source``: one for the M boxes of each image; or
            (..., M, 3, 3), one for each box.
        box_format: XYXY, XYWH or CXCYWH, of both input and result.
        size: (..., 2), height and width of the source, of the column ``source_size``, at which the boxes are
            cut off. None cuts nothing.

    Returns:
        (..., M, 4) float64. A box that is turned becomes the upright box around it. What lies behind the
        horizon of a perspective is infinitely far away.
    """
    xyxy = convert_boxes(boxes, box_format, "XYXY")
    if xyxy.shape[-1:] != (4,):
        raise ConfigError(f"boxes must be (..., 4), found {xyxy.shape}")
    quads = _moved(corners(xyxy), matrix, "boxes")
    moved = np.concatenate((quads.min(axis=-2), quads.max(axis=-2)), axis=-1)
    if size is not None:
        limit = np.asarray(size, np.float64)[..., ::-1]
        limit = limit if limit.ndim == moved.ndim else limit[..., None, :]
        moved = np.clip(moved, 0, np.concatenate((limit, limit), axis=-1))
    return convert_boxes(moved, "XYXY", box_format)


def keypoints_to_source(
    keypoints: npt.ArrayLike, matrix: npt.ArrayLike, *, swap: Sequence[int] | None = None, coco: bool = False
) -> Float:
    """Keypoints of an output in the pixels of its source; ConfigError where shapes do not fit.

    Args:
        keypoints: (..., M, K, 3), x, y and a visibility or a score, which stays; or (..., M, K, 2). A point
            (0, 0, 0) is not seen, and stays.
        matrix: (..., 3, 3), of the column ``to_source``: one for the M objects of each image, or
            (..., M, 3, 3), one for each object.
        swap: (K,) integers. In a mirrored image, keypoint k is keypoint ``swap[k]`` of the source: the left
            eye of a mirrored face is its right eye. None exchanges nothing.
        coco: Whether the result counts as COCO's keypoints do: indexes of pixels, so that the centre of the
            first pixel is (0, 0) and not (0.5, 0.5).

    Returns:
        (..., M, K, 3) or (..., M, K, 2) float64.
    """
    points = np.array(keypoints, np.float64)
    if points.ndim < 2 or points.shape[-1] not in (2, 3):
        raise ConfigError(f"keypoints must be (..., K, 3) or (..., K, 2), found {points.shape}")
    moved: Float = points.copy()
    moved[..., :2] = _moved(points[..., :2], matrix, "keypoints") - (0.5 if coco else 0.0)
    if points.shape[-1] == 3:
        moved = np.where(points.any(axis=-1, keepdims=True), moved, points)
    if swap is None or not len(swap):
        return moved
    mirrored = np.asarray(np.linalg.det(np.asarray(matrix, np.float64)) < 0)
    mirrored = mirrored.reshape(mirrored.shape + (1,) * (points.ndim - mirrored.ndim))
    return np.asarray(np.where(mirrored, moved[..., np.asarray(swap), :], moved))


def masks_to_source(
    masks: npt.ArrayLike, matrix: npt.ArrayLike, size: Sequence[int] | npt.NDArray[Any], *, fill: int = 0
) -> npt.NDArray[Any]:
    """Masks of one image of the output, in the pixels of its source; ConfigError where shapes do not fit.

    Args:
        masks: (..., H, W), of any dtype: instance masks, class masks, or scores of each class.
        matrix: (3, 3), of the column ``to_source``.
        size: Height and width of the source, of the column ``source_size``.
        fill: Value of the pixels that the output does not show.

    Returns:
        (..., height, width) of the same dtype. Each pixel has the value of the output's pixel that shows its
        centre.
    """
    given, matrix = np.asarray(masks), np.asarray(matrix, np.float64)
    if matrix.shape != (3, 3):
        raise ConfigError(f"the matrix of masks must be (3, 3), of one image, found {matrix.shape}")
    try:
        to_output = np.asarray(np.linalg.inv(matrix), np.float64)
    except np.linalg.LinAlgError:
        raise ConfigError("the matrix shows only one line of the source, so masks cannot go back") from None
    height, width = map(int, size)
    rows, columns = held_pixels(to_output, (height, width), (given.shape[-2], given.shape[-1]))
    return np.where(rows >= 0, given[..., rows, columns], np.asarray(fill, given.dtype))


def _moved(points: Float, matrix: npt.ArrayLike, name: str) -> Float:
    """Points, (..., M, P, 2), moved by matrices, (..., 3, 3) or (..., M, 3, 3)."""
    matrices = np.asarray(matrix, np.float64)
    objects = points.shape[:-2]
    if matrices.shape[-2:] != (3, 3) or matrices.shape[:-2] not in (objects, objects[:-1]):
        raise ConfigError(
            f"{name} of {objects} objects do not fit matrices of the shape {matrices.shape}",
            hint="Give (M, ...) and (3, 3) for one image, or (N, M, ...) and (N, 3, 3) for a batch.",
        )
    lead, rest = points.shape[: matrices.ndim - 2], points.shape[matrices.ndim - 2 : -1]
    flat = points.reshape(math.prod(lead), math.prod(rest), 2)
    return apply_matrix(matrices.reshape(-1, 3, 3), flat).reshape(points.shape)
