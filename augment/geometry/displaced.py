"""Boxes, keypoints and masks under the displacements of ElasticTransform, after all other geometry.

Images are displaced by a field that leads from the output to the image before. Masks follow it. Points need
its inverse, for which they take the negated field at the pixel that holds them, as torchvision does in
``elastic_bounding_boxes`` and ``elastic_keypoints``. All coordinates are (x, y) in pixels of the output, with
edges of pixels at integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..params.image_params import ImageParams
from ..steps import Displace
from .boxes import corners

Float = npt.NDArray[np.float64]
Owner = npt.NDArray[np.integer]


def displace_masks(
    params: ImageParams, masks: npt.NDArray[Any], owner: Owner, outside: int
) -> npt.NDArray[Any]:
    """Displace masks in place, and return them."""
    # masks (M, H, W), owner (M,)
    for step in _steps(params):
        for mask, i in zip(masks, owner.tolist(), strict=True):
            height, width = params.size_of(i)
            mask[:height, :width] = step.mask(i, mask[:height, :width], outside)
    return masks


def displace_boxes(params: ImageParams, boxes: Float, owner: Owner) -> Float:
    """Upright boxes around the displaced corners of boxes, cut at the borders of the output."""
    # boxes (M, 4), owner (M,) -> (M, 4) float64
    for step in _steps(params):
        points = _moved(params, step, corners(boxes), owner)
        limits = np.array([params.size_of(i)[::-1] for i in owner.tolist()]).reshape(-1, 2)
        low, high = points.min(axis=1).clip(0, limits), points.max(axis=1).clip(0, limits)
        seen = np.all(boxes[:, 2:] > boxes[:, :2], axis=1)
        boxes = np.where(seen[:, None], np.concatenate((low, high), axis=1), boxes)
    return boxes


def displace_keypoints(params: ImageParams, keypoints: Float, owner: Owner) -> Float:
    """Displaced keypoints, (M, K, 3) as they are given; (0, 0, 0) where one leaves the output."""
    for step in _steps(params):
        moved = _moved(params, step, keypoints[..., :2], owner)
        limits = np.array([params.size_of(i)[::-1] for i in owner.tolist()]).reshape(-1, 1, 2)
        seen = (keypoints[..., 2] > 0) & np.all((moved >= 0) & (moved <= limits), axis=-1)
        keypoints = np.where(seen[..., None], np.concatenate((moved, keypoints[..., 2:]), axis=-1), 0)
    return keypoints


def _steps(params: ImageParams) -> Iterator[Displace]:
    return (step for step in params.steps or () if isinstance(step, Displace))


def _moved(params: ImageParams, step: Displace, points: Float, owner: Owner) -> Float:
    """Points of images, (M, P, 2), displaced."""
    moved: Float = points.copy()
    for i in np.unique(owner[step.where[owner]]).tolist():
        mine = owner == i
        size = params.size_of(i)
        at = np.floor(points[mine]).astype(np.intp)
        rows, columns = (at[..., 1 - axis].clip(0, size[axis] - 1) for axis in (0, 1))
        moved[mine] -= step.field(i, size)[::-1, rows, columns].transpose(1, 2, 0)
    return moved
