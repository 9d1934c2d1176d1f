"""Instance masks, COCO's polygons and run lengths, under the parameters of their image.

A pixel belongs to a polygon if its centre lies within, by the even-odd rule, and to an object if it belongs
to any of its polygons. Vertices are mapped, not pixels, so the outline stays exact. (pycocotools rounds
vertices to fifths of a pixel.) Run lengths give a mask, and each pixel of the output takes the value of its
nearest pixel. Loaders get the same masks from C++: :mod:`stoker.pipeline.images.objects`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

from ..params import ImageParams
from ..resampling import apply_matrix
from .annotations import forward_matrix, nearest, shown, source_pixels

Float = npt.NDArray[np.float64]
Mask = npt.NDArray[np.uint8]
Runs = npt.NDArray[np.integer[Any]]


# Vertices farther away may overflow the arithmetic of edges.
_HORIZON = 1e100


def transform_segments(
    params: ImageParams,
    owner: npt.NDArray[np.integer[Any]],
    height: npt.NDArray[np.integer[Any]],
    width: npt.NDArray[np.integer[Any]],
    *,
    polygons: Sequence[Sequence[npt.NDArray[np.floating[Any]]]] | None = None,
    runs: Sequence[Runs] | None = None,
) -> Mask:
    """Instance masks in the output.

    Args:
        params: Parameters of a batch.
        owner: (M,) integers, index in the batch of the image that each object belongs to.
        height: (N,) integers, heights of the sources, pixels.
        width: (N,) integers, widths of the sources, pixels.
        polygons: For each object its polygons, (P, 2) each, (x, y) in pixels of the source; or None.
        runs: For each object its run lengths, see :func:`decode_runs`, empty for none; or None.

    Returns:
        (M, H, W) uint8, 1 where the object is seen, else 0.

    Raises:
        ConfigError: Run lengths do not fit the size of the source, or a vertex of a polygon is not finite.
    """
    masks = np.zeros((len(owner), *params.size), np.uint8)
    forward, visible = forward_matrix(params), shown(params)
    pixels: dict[int, Any] = {}
    for mask, k, i in zip(masks, range(len(owner)), np.asarray(owner).tolist(), strict=True):
        if polygons and visible[i]:
            cut = [_clip(_finite(polygon), params.region[i]) for polygon in polygons[k]]
            moved = [apply_matrix(forward[i : i + 1], polygon[None])[0] for polygon in cut if len(polygon)]
            near = [polygon for polygon in moved if (np.abs(polygon) < _HORIZON).all()]
            mask |= fill_polygons(near, params.size)  # noqa: PLW2901 - a view of ``masks``
        if runs and len(runs[k]):
            if i not in pixels:
                pixels[i] = source_pixels(params, i)
            source = decode_runs(runs[k], (int(height[i]), int(width[i])))
            mask |= nearest(source, pixels[i], 0).astype(np.uint8)  # noqa: PLW2901 - likewise
    return masks


def fill_polygons(polygons: Sequence[npt.NDArray[np.floating[Any]]], size: tuple[int, int]) -> Mask:
    """The mask, (H, W) uint8, of an object from its polygons, (P, 2) each."""
    mask = np.zeros(size, np.uint8)
    for polygon in polygons:
        _fill(mask, np.asarray(polygon, np.float64))
    return mask


def decode_runs(runs: Runs, size: tuple[int, int]) -> Mask:
    """A mask, (H, W) uint8, from its run lengths, (R,), in COCO's order."""
    height, width = size
    lengths = np.asarray(runs, np.int64)
    if lengths.sum() != height * width or lengths.min(initial=0) < 0:
        raise ConfigError(f"run lengths must sum to {height} x {width} pixels; they sum to {lengths.sum()}")
    values = (np.arange(len(lengths)) & 1).astype(np.uint8)
    return np.asarray(np.repeat(values, lengths).reshape(width, height).T)


def encode_runs(mask: npt.NDArray[Any]) -> npt.NDArray[np.uint32]:
    """Run lengths, (R,) uint32, of the values other than 0 of a mask, (H, W); see :func:`decode_runs`."""
    flat = np.ravel(np.asarray(mask) != 0, order="F")
    ends = np.flatnonzero(np.diff(flat, prepend=False))
    return np.diff(ends, prepend=0, append=flat.size).astype(np.uint32)


def mask_boxes(masks: npt.NDArray[Any]) -> Float:
    """Boxes around masks.

    Args:
        masks: (M, H, W); all values but 0 belong to the object.

    Returns:
        (M, 4) float64 XYXY, pixels, with edges of pixels at integers; zeros where a mask is empty.
    """
    covered = np.asarray(masks) != 0
    boxes = np.zeros((len(covered), 4))
    not_empty = np.flatnonzero(covered.any(axis=(1, 2)))
    for axis, low in ((1, 0), (2, 1)):
        seen = np.asarray(covered[not_empty].any(axis=axis))
        boxes[not_empty, low] = seen.argmax(axis=1)
        boxes[not_empty, low + 2] = seen.shape[1] - seen[:, ::-1].argmax(axis=1)
    return boxes


def _finite(polygon: npt.NDArray[np.floating[Any]]) -> Float:
    points = np.asarray(polygon, np.float64)
    if not np.isfinite(points).all():
        raise ConfigError("the vertices of polygons must be finite")
    return points


def _fill(mask: Mask, polygon: Float) -> None:
    """Set the pixels of ``mask`` whose centres lie within a polygon, (P, 2)."""
    height, width = mask.shape
    x, y = polygon.T
    run, rise = _following(polygon).T - polygon.T
    slope = np.divide(run, rise, out=np.zeros_like(x), where=rise != 0)
    end = np.ceil(y - 0.5).clip(0, height).astype(np.int64)
    next_end = _following(end)
    first = np.minimum(end, next_end)
    count = np.abs(next_end - end)
    if not count.any():
        return
    # The rows whose centres each edge crosses, and the first column to the right of the crossing.
    edge = np.repeat(np.arange(len(polygon)), count)
    rows = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count - first, count)
    crossing = x[edge] + (rows + 0.5 - y[edge]) * slope[edge]
    columns = np.ceil(crossing - 0.5).clip(0, width).astype(np.int64)
    top, left = rows.min(), columns.min()
    toggled = np.zeros((rows.max() + 1 - top, columns.max() + 1 - left), np.uint8)
    np.add.at(toggled, (rows - top, columns - left), 1)
    # A running exclusive or has the lowest bit of the running sum, in a third of the time.
    inside = np.bitwise_xor.accumulate(toggled[:, :-1], axis=1) & 1
    mask[top : top + inside.shape[0], left : left + inside.shape[1]] |= inside


def _clip(polygon: Float, region: Float) -> Float:
    """The part of a polygon, (P, 2), within a rectangle (top, left, bottom, right): (Q, 2), Q from 0."""
    # Sutherland and Hodgman, "Reentrant polygon clipping", 1974. Separate parts stay joined by a line along
    # the rectangle's edge and back, which encloses nothing.
    top, left, bottom, right = region
    for axis, sign, bound in ((0, 1, left), (0, -1, right), (1, 1, top), (1, -1, bottom)):
        depth = sign * (polygon[:, axis] - bound)
        inside = depth >= 0
        if inside.all():
            continue
        following, next_depth = _following(polygon), _following(depth)
        crosses = inside != (next_depth >= 0)
        share = np.divide(depth, depth - next_depth, out=np.zeros_like(depth), where=crosses)
        points = np.stack((polygon, polygon + share[:, None] * (following - polygon)), axis=1)
        polygon = points[np.stack((inside, crosses), axis=1)]
    return polygon


def _following(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Values shifted by one along the first axis, as by np.roll(values, -1, 0), in a third of the time."""
    return np.concatenate((values[1:], values[:1]))
