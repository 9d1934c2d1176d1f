"""Boxes: torchvision's formats, the images they belong to, and what a window shows of a quadrilateral."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast, get_args

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

Float = npt.NDArray[np.float64]

BoxFormat = Literal["XYXY", "XYWH", "CXCYWH", "xyxy", "xywh", "cxcywh"]
"""Names of the formats of boxes; those in lower case, as torchvision.ops has them, mean the same."""

_FORMATS = ("XYXY", "XYWH", "CXCYWH")


@dataclass(frozen=True)
class Objects:
    """Boxes of the objects in N images, on which the decisions of a transform may depend.

    ``boxes``, (M, 4) float64 XYXY, are in pixels of the source after its EXIF orientation has been applied;
    ``owner``, (M,) int64, is the index in the batch of the image that each box belongs to.
    """

    boxes: npt.NDArray[np.float64]
    owner: npt.NDArray[np.int64]

    def take(self, rows: npt.NDArray[np.int64]) -> Objects:
        """Objects of the images at ``rows``, (K,) int64 without repeats, as a batch of K images."""
        new_index = np.full(max(self.owner.max(initial=-1), rows.max(initial=-1)) + 1, -1)
        new_index[rows] = np.arange(len(rows))
        owner = new_index[self.owner]
        return Objects(self.boxes[owner >= 0], owner[owner >= 0])


def box_format(name: str, value: str) -> BoxFormat:
    """Return a format of boxes in upper case; ConfigError, about the argument ``name``, for another one."""
    if value not in get_args(BoxFormat):
        raise ConfigError(f"{name} must be one of {', '.join(_FORMATS)}, found {value!r}")
    return cast("BoxFormat", value.upper())


def convert_boxes(boxes: npt.ArrayLike, source: BoxFormat, target: BoxFormat) -> Float:
    """Convert boxes, (..., 4), pixels, from one format to another.

    XYXY is left, top, right, bottom; XYWH is left, top, width, height (COCO); CXCYWH is the centre, width
    and height (YOLO has them as shares of the image). Edges of pixels are integers.
    """
    source, target = box_format("source", source), box_format("target", target)
    if source == target:
        return np.array(boxes, np.float64)
    first, second = np.split(np.asarray(boxes, np.float64), 2, axis=-1)
    if source == "XYXY":
        low, extent = first, second - first
    else:
        low, extent = (first if source == "XYWH" else first - second / 2), second
    pairs = {"XYXY": (low, low + extent), "XYWH": (low, extent), "CXCYWH": (low + extent / 2, extent)}
    return np.concatenate(pairs[target], axis=-1)


def corners(boxes: Float) -> Float:
    """Corners of XYXY boxes, (..., 4), in clockwise order: (..., 4, 2) of (x, y)."""
    return boxes[..., [[0, 1], [2, 1], [2, 3], [0, 3]]]


def clip_boxes(boxes: Float, size: tuple[int, int]) -> tuple[Float, Float]:
    """Boxes, (M, 4) XYXY, cut at the borders of an image; returns what :func:`clip_quads` does for them."""
    height, width = size
    seen = np.minimum(np.maximum(boxes, 0), (width, height, width, height))
    share = shares(box_areas(seen), box_areas(boxes))
    seen[share == 0] = 0
    return seen, share


def box_areas(boxes: Float) -> Float:
    """(M,) areas of XYXY boxes, (M, 4)."""
    return np.asarray((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]))


def shares(part: Float, whole: Float) -> Float:
    """Areas over the areas they are part of, (M,), 0 to 1; 0 where the whole is 0."""
    share = np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)
    return np.minimum(np.maximum(share, 0, out=share), 1, out=share)


def clip_quads(quads: Float, size: tuple[int, int]) -> tuple[Float, Float]:
    """Boxes around the parts of quadrilaterals within an image, and these parts' shares of the areas."""
    # quads (M, 4, 2) -> (M, 4)
    height, width = size
    quads = np.where(np.isfinite(quads).all(axis=(1, 2), keepdims=True), quads, 0.0)
    points, seen = _vertices(quads, corners(np.array([[0.0, 0.0, width, height]])))
    bounds = [points.min(axis=1, initial=np.inf, where=seen[..., None])]
    bounds += [points.max(axis=1, initial=-np.inf, where=seen[..., None])]
    # Rounding may put a corner on the edge beyond it.
    boxes = np.clip(np.concatenate(bounds, axis=-1), 0, (width, height, width, height))
    share = shares(_convex_area(points, seen), np.abs(_area(quads)))
    boxes[share == 0] = 0
    return boxes, share


def _vertices(quads: Float, window: Float) -> tuple[Float, npt.NDArray[np.bool_]]:
    """Points, (M, 24, 2), and which of them, (M, 24), are vertices of the quads' parts within a window."""
    # Vertices are the corners of either that lie within the other, and the crossings of their edges.
    window = np.broadcast_to(window, quads.shape)
    start, edge = quads[:, :, None], (np.roll(quads, -1, axis=1) - quads)[:, :, None]
    other, other_edge = window[:, None], (np.roll(window, -1, axis=1) - window)[:, None]
    denominator = _cross(edge, other_edge)
    parallel = denominator == 0
    denominator = np.where(parallel, 1.0, denominator)
    along = _cross(other - start, other_edge) / denominator
    across = _cross(other - start, edge) / denominator
    crossing = ~parallel & (along >= 0) & (along <= 1) & (across >= 0) & (across <= 1)
    m = len(quads)
    points = np.concatenate((quads, window, (start + along[..., None] * edge).reshape(m, 16, 2)), axis=1)
    seen = np.concatenate((_within(quads, window), _within(window, quads), crossing.reshape(m, 16)), axis=1)
    return points, seen


def _within(points: Float, polygons: Float) -> npt.NDArray[np.bool_]:
    """Which points, (M, P, 2), lie within or on the edge of convex polygons, (M, Q, 2)."""
    edges = np.roll(polygons, -1, axis=1) - polygons
    sides = _cross(edges[:, None], points[:, :, None] - polygons[:, None])
    sides *= np.sign(_area(polygons))[:, None, None]
    return np.asarray(np.all(sides >= 0, axis=2))


def _convex_area(points: Float, seen: npt.NDArray[np.bool_]) -> Float:
    """Areas of convex polygons whose vertices, in any order and repeated, are the points ``seen``."""
    count = np.maximum(seen.sum(axis=1), 1)[:, None, None]
    center = np.where(seen[..., None], points, 0).sum(axis=1, keepdims=True) / count
    offset = np.where(seen[..., None], points - center, 0)
    angle = np.where(seen, np.arctan2(offset[..., 1], offset[..., 0]), np.inf)
    order = np.argsort(angle, axis=1, kind="stable")
    offset = np.take_along_axis(offset, order[..., None], axis=1)
    # Points that are not seen come last; the first vertex, which replaces them, adds nothing.
    ranked = np.take_along_axis(seen, order, axis=1)
    return np.abs(_area(np.where(ranked[..., None], offset, offset[:, :1])))


def _area(polygons: Float) -> Float:
    """Signed areas of polygons, (M, P, 2), by the shoelace formula."""
    return np.asarray(_cross(polygons, np.roll(polygons, -1, axis=1)).sum(axis=1) / 2)


def _cross(a: Float, b: Float) -> Float:
    return np.asarray(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0])
