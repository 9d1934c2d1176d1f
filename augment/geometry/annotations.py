"""Boxes, masks and keypoints under the parameters of their image.

Annotations of a batch are one array for all its images, beside the index in the batch of each one's image
(``owner``). Input coordinates are (x, y) in pixels of the source after its EXIF orientation has been applied,
with edges of pixels at integers; results are in pixels of the output.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

from ..params import ImageParams
from ..resampling import apply_matrix, held_pixels
from ..steps import Displace
from .boxes import BoxFormat, box_areas, clip_boxes, clip_quads, convert_boxes, corners, shares

Float = npt.NDArray[np.float64]
Owner = npt.NDArray[np.integer]
Pixels = npt.NDArray[np.intp]


def forward_matrix(params: ImageParams) -> Float:
    """(N, 3, 3) float64, from homogeneous (x, y, 1) in the source to the output; ConfigError without one."""
    scale, shift = _upright_map(params)
    matrix = np.zeros((len(params), 3, 3))
    matrix[:, [0, 1], [0, 1]] = scale
    matrix[:, :2, 2] = shift
    matrix[:, 2, 2] = 1
    if params.warp is None:
        return matrix
    try:
        return np.linalg.inv(params.warp.matrix) @ matrix
    except np.linalg.LinAlgError:
        raise ConfigError(
            "a warp shows only one line of an image, so boxes, keypoints and masks cannot follow it",
            hint="Let your own transform give state.distort matrices that have inverses.",
        ) from None


def _upright_map(params: ImageParams) -> tuple[Float, Float]:
    """Factors and then summands, (N, 2), that map x and y of the source to the output, or to the canvas."""
    # Fields of ``params`` have the vertical axis first, points have the horizontal axis first.
    region, dest = params.region, params.dest.astype(np.float64)
    scale = dest[:, 2:] / (region[:, 2:] - region[:, :2])
    shift = dest[:, :2] - region[:, :2] * scale
    scale, shift = np.where(params.flip[:, ::-1], (-scale, params.upright_size() - shift), (scale, shift))
    if params.border is not None:
        shift = shift - params.border.origin
    return scale[:, ::-1], shift[:, ::-1]


def area_scale(params: ImageParams, points: Float, owner: Owner) -> Float:
    """Factors between areas at points of the source and the areas in the output."""
    # points (M, 2), owner (M,) -> (M,) float64
    if params.warp is None:
        scale, _ = _upright_map(params)
        return np.asarray(np.abs(scale[:, 0] * scale[:, 1])[owner])
    # The Jacobian of a projective map, its determinant over the cube of the homogeneous coordinate.
    matrix = forward_matrix(params)
    horizon = matrix[owner, 2]
    w = horizon[:, 0] * points[:, 0] + horizon[:, 1] * points[:, 1] + horizon[:, 2]
    return np.asarray(np.abs(np.linalg.det(matrix)[owner] / w**3))


def mirrored(params: ImageParams) -> npt.NDArray[np.bool_]:
    """(N,) bool: images that are mirrored, as by one flip, and not by two flips or by a rotation."""
    return np.asarray(np.linalg.det(forward_matrix(params)) < 0)


def transform_boxes(
    params: ImageParams,
    boxes: npt.ArrayLike,
    owner: Owner,
    box_format: BoxFormat = "XYXY",
    *,
    min_visible: float = 0.0,
    min_size: float = 0.0,
) -> tuple[Float, npt.NDArray[np.bool_]]:
    """Boxes in the output, cut at its borders, and which of them to keep.

    A turned box becomes the upright box around its visible part. RandomIoUCrop drops objects if the centre of
    their box was cut away.

    Args:
        params: Parameters of a batch.
        boxes: (M, 4), pixels, in ``box_format``.
        owner: (M,) integers, index in the batch of the image that each box belongs to.
        box_format: XYXY, XYWH or CXCYWH, of both input and output.
        min_visible: Smallest share of a box's area, 0 to 1, that must be seen. A part that is cut away, or
            moved out of the output by a warp, is not seen.
        min_size: Smallest width and height, pixels of the output.

    Returns:
        (M, 4) float64 boxes in ``box_format``, zeros where nothing is seen, and (M,) bool.
    """
    boxes = convert_boxes(boxes, box_format, "XYXY").reshape(-1, 4)
    limits = params.region[:, [1, 0, 3, 2]][owner]
    low = np.minimum(np.maximum(boxes[:, :2], limits[:, :2]), limits[:, 2:])
    high = np.maximum(np.minimum(boxes[:, 2:], limits[:, 2:]), low)
    cut = np.concatenate((low, high), axis=1)
    if params.warp is None:
        scale, shift = (np.concatenate((part, part), axis=1)[owner] for part in _upright_map(params))
        moved = cut * scale + shift
        ends = np.minimum(moved[:, :2], moved[:, 2:]), np.maximum(moved[:, :2], moved[:, 2:])
        seen, share = clip_boxes(np.concatenate(ends, axis=1), params.size)
    else:
        seen, share = clip_quads(apply_matrix(forward_matrix(params)[owner], corners(cut)), params.size)
    visible = shares(box_areas(cut), box_areas(boxes)) * share * shown(params)[owner]
    keep = (visible > 0) & (visible >= min_visible)
    if min_size > 0:
        keep &= np.all(seen[:, 2:] - seen[:, :2] >= min_size, axis=1)
    if params.window is not None:
        window, center = params.window[owner], (boxes[:, :2] + boxes[:, 2:]) / 2
        keep &= np.all((window[:, 1::-1] < center) & (center < window[:, :1:-1]), axis=1)
    return convert_boxes(seen, "XYXY", box_format), keep


def transform_keypoints(
    params: ImageParams, keypoints: npt.ArrayLike, owner: Owner, swap: npt.ArrayLike | None = None
) -> Float:
    """Keypoints in the output, with visibility as in COCO.

    Args:
        params: Parameters of a batch.
        keypoints: (M, K, 3), x, y and visibility: 0 not labelled, 1 labelled but hidden, 2 visible.
        owner: (M,) integers, index in the batch of the image that each set belongs to.
        swap: (K,) integers. In a mirrored image, keypoint k replaces keypoint ``swap[k]``: the left eye
            becomes the right eye.

    Returns:
        (M, K, 3) float64; a point that is not seen in the output is (0, 0, 0).
    """
    points = np.array(keypoints, np.float64)
    xy, visibility = points[..., :2], points[..., 2]
    region = params.region[owner][:, None]
    inside = np.all((xy >= region[..., 1::-1]) & (xy <= region[..., :1:-1]), axis=-1)
    moved = apply_matrix(forward_matrix(params)[owner], xy)
    height, width = params.size
    inside &= shown(params)[owner, None]
    seen = (visibility > 0) & inside & np.all((moved >= 0) & (moved <= (width, height)), axis=-1)
    points = np.where(seen[..., None], np.concatenate((moved, visibility[..., None]), axis=-1), 0)
    if swap is None or not np.size(swap):
        return points
    turned = mirrored(params)[owner][:, None, None]
    return np.where(turned, points[:, np.asarray(swap)], points)


def transform_mask(
    params: ImageParams, i: int, mask: npt.NDArray[np.integer], ignore: int = 255
) -> npt.NDArray[np.integer]:
    """The mask of sample ``i``: each pixel takes the value of the source's pixel that holds its centre.

    Pillow's ``NEAREST`` and torchvision's ``NEAREST_EXACT`` do the same, also for padding.

    Args:
        params: Parameters of a batch.
        i: Position of the sample in it.
        mask: (H, W) integers, as large as the source.
        ignore: Value where the output shows nothing of the source; 255 in PASCAL VOC and ADE20K.

    Returns:
        Mask of ``params.size``, of the dtype of ``mask``.
    """
    if params.border is None or params.warp is None:
        return nearest(mask, source_pixels(params, i, continued=True), ignore)
    canvas = transform_mask(replace(params, size=params.warp.canvas, warp=None), i, mask, ignore)
    return nearest(canvas, held_pixels(params.warp.matrix[i], params.size, params.warp.canvas), ignore)


def source_pixels(params: ImageParams, i: int, *, continued: bool = False) -> tuple[Pixels, Pixels]:
    """Row and column of the source's pixel that holds the centre of each pixel of sample ``i``."""
    height, width = params.size
    if params.warp is None:
        # One axis at a time: the matrix is diagonal.
        rows, columns = np.arange(height)[:, None] + 0.5, np.arange(width)[None] + 0.5
        border = params.border
        if border is not None and continued:
            top, left = border.origin[i]
            rows, columns = border.rows[i][:, None] - top + 0.5, border.columns[i][None] - left + 0.5
        matrix = params.to_source()[i]
        y, x = matrix[1, 1] * rows + matrix[1, 2], matrix[0, 0] * columns + matrix[0, 2]
    else:
        rows, columns = np.indices(params.size) + 0.5
        centers = np.stack((columns, rows), axis=-1).reshape(1, -1, 2)
        x, y = apply_matrix(params.to_source()[i : i + 1], centers)[0].T.reshape(2, height, width)
    top, left, bottom, right = params.region[i]
    visible = shown(params)[i]
    y = np.where((y >= top) & (y < bottom) & visible, y, -1)
    x = np.where((x >= left) & (x < right) & visible, x, -1)
    return y.astype(np.intp), x.astype(np.intp)


def nearest(
    mask: npt.NDArray[np.integer], pixels: tuple[Pixels, Pixels], ignore: int
) -> npt.NDArray[np.integer]:
    """Values of a mask, (H, W), at the pixels that :func:`source_pixels` returned; ``ignore`` at -1."""
    rows, columns = pixels
    if rows.shape[1] > 1 or columns.shape[0] > 1:
        return np.where((rows >= 0) & (columns >= 0), mask[rows, columns], np.asarray(ignore, mask.dtype))
    # One axis after the other takes a sixth of the time.
    y, x = rows[:, 0], columns[0]
    values = mask[y][:, x]
    values[y < 0] = ignore
    values[:, x < 0] = ignore
    return values


def shown(params: ImageParams) -> npt.NDArray[np.bool_]:
    """(N,) bool: images that show more than padding."""
    return np.full(len(params), True) if params.empty is None else ~params.empty


def displace_masks(
    params: ImageParams, masks: npt.NDArray[Any], owner: Owner, outside: int
) -> npt.NDArray[Any]:
    """Displace masks in place, and return them."""
    # masks (M, H, W), owner (M,)
    for step in _displacements(params):
        for mask, i in zip(masks, owner.tolist(), strict=True):
            height, width = params.size_of(i)
            mask[:height, :width] = step.mask(i, mask[:height, :width], outside)
    return masks


def displace_boxes(params: ImageParams, boxes: Float, owner: Owner) -> Float:
    """Upright boxes around the displaced corners of boxes, cut at the borders of the output."""
    # boxes (M, 4), owner (M,) -> (M, 4) float64
    limits = _limits(params, owner)
    for step in _displacements(params):
        points = _moved(params, step, corners(boxes), owner)
        low, high = points.min(axis=1).clip(0, limits), points.max(axis=1).clip(0, limits)
        seen = np.all(boxes[:, 2:] > boxes[:, :2], axis=1)
        boxes = np.where(seen[:, None], np.concatenate((low, high), axis=1), boxes)
    return boxes


def displace_corners(params: ImageParams, points: Float, owner: Owner) -> Float:
    """Displaced points of objects, (M, P, 2), also where they lie outside."""
    for step in _displacements(params):
        points = _moved(params, step, points, owner)
    return points


def displace_keypoints(params: ImageParams, keypoints: Float, owner: Owner) -> Float:
    """Displaced keypoints, (M, K, 3) as they are given; (0, 0, 0) where one leaves the output."""
    limits = _limits(params, owner)[:, None]
    for step in _displacements(params):
        moved = _moved(params, step, keypoints[..., :2], owner)
        seen = (keypoints[..., 2] > 0) & np.all((moved >= 0) & (moved <= limits), axis=-1)
        keypoints = np.where(seen[..., None], np.concatenate((moved, keypoints[..., 2:]), axis=-1), 0)
    return keypoints


def _displacements(params: ImageParams) -> list[Displace]:
    return [step for step in params.steps or () if isinstance(step, Displace)]


def _limits(params: ImageParams, owner: Owner) -> npt.NDArray[np.int64]:
    """(M, 2), width and height of the image of each object."""
    sizes = params.size if params.image_size is None else params.image_size[owner]
    return np.broadcast_to(np.asarray(sizes, np.int64)[..., ::-1], (len(owner), 2))


def _moved(params: ImageParams, step: Displace, points: Float, owner: Owner) -> Float:
    """Points of images, (M, P, 2), displaced."""
    # The field leads from the output to the image before. Points need its inverse, for which they take the
    # negated field at the pixel that holds them, as torchvision does in elastic_keypoints.
    moved: Float = points.copy()
    for i in np.unique(owner[step.where[owner]]).tolist():
        mine = owner == i
        size = params.size_of(i)
        at = np.floor(points[mine]).astype(np.intp)
        rows, columns = (at[..., 1 - axis].clip(0, size[axis] - 1) for axis in (0, 1))
        moved[mine] -= step.field(i, size)[::-1, rows, columns].transpose(1, 2, 0)
    return moved
