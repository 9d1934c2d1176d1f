"""The geometry of a resized image, and the objects and masks that are resized with it.

The arithmetic is that of the C++ function ``transcode``, which resizes the pixels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...dataset.annotations import Annotations, mask_of_runs, runs_of_mask
from ..option_values import ResizeMode

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class ResizeGeometry:
    """A rectangle of a source image, and the rectangle of the output that shows it."""

    region: tuple[float, float, float, float]  # Top, left, bottom, right in the source, pixels
    dest: tuple[int, int, int, int]  # Top, left, height, width in the output, pixels
    size: tuple[int, int]  # Height and width of the output

    @property
    def scale(self) -> npt.NDArray[np.float64]:
        """(2,) pixels of the output for one pixel of the source, along x and y."""
        top, left, bottom, right = self.region
        return np.array([self.dest[3] / (right - left), self.dest[2] / (bottom - top)])

    @property
    def shift(self) -> npt.NDArray[np.float64]:
        """(2,) coordinates of the source's origin in the output, x and y, pixels."""
        return np.array([self.dest[1], self.dest[0]]) - self.scale * (self.region[1], self.region[0])

    @property
    def is_identity(self) -> bool:
        """Whether the output is the source."""
        whole = [0, 0, *self.size]
        return list(self.region) == whole and list(self.dest) == whole


def resize_geometry(mode: ResizeMode, height: int, width: int, source: tuple[int, int]) -> ResizeGeometry:
    """The geometry of resizing an image of the height and width ``source``, see :func:`parse_resize`."""
    h, w = source
    if mode in ("shorter", "longer"):
        reference = min(h, w) if mode == "shorter" else max(h, w)
        if reference > height:
            return _whole(source, (max(1, h * height // reference), max(1, w * height // reference)))
    elif mode == "squash":
        return _whole(source, (height, width))
    elif mode == "crop":
        return _crop(h, w, height, width)
    elif mode == "fill":
        return _fill(h, w, height, width)
    return _whole(source, source)


def _whole(source: tuple[int, int], size: tuple[int, int]) -> ResizeGeometry:
    return ResizeGeometry((0, 0, *source), (0, 0, *size), size)


def _rounded(value: float) -> int:
    return max(1, math.floor(value + 0.5))


def _crop(h: int, w: int, height: int, width: int) -> ResizeGeometry:
    y_ratio, x_ratio = h / height, w / width
    cut_x = x_ratio > y_ratio
    size, target = (w, width) if cut_x else (h, height)
    resized = max(target, _rounded(size / min(y_ratio, x_ratio)))
    start = math.floor((resized - target) / 2 + 0.5)
    pixel = size / resized
    low, high = start * pixel, min(float(size), (start + target) * pixel)
    region = (0, low, h, high) if cut_x else (low, 0, high, w)
    return ResizeGeometry(region, (0, 0, height, width), (height, width))


def _fill(h: int, w: int, height: int, width: int) -> ResizeGeometry:
    y_ratio, x_ratio = h / height, w / width
    pad_y = x_ratio > y_ratio
    size, target = (h, height) if pad_y else (w, width)
    resized = min(target, _rounded(size / max(y_ratio, x_ratio)))
    resized += (target - resized) & 1
    first = (target - resized) // 2
    dest = (first, 0, resized, width) if pad_y else (0, first, height, resized)
    return ResizeGeometry((0, 0, h, w), dest, (height, width))


def resize_objects(objects: Annotations, geometry: ResizeGeometry, source: tuple[int, int]) -> Annotations:
    """Objects of one image of the height and width ``source``, in the pixels of the output, not clipped."""
    if geometry.is_identity:
        return objects
    scale, shift = geometry.scale, geometry.shift
    moved: dict[str, Any] = {
        "boxes": _moved(objects.boxes.reshape(-1, 2), scale, shift).reshape(-1, 4),
        "area": (objects.area * scale.prod()).astype(np.float32),
    }
    if objects.keypoints is not None:
        points = objects.keypoints.copy()
        labelled = points[..., 2] > 0
        points[labelled, :2] = _moved(points[labelled, :2], scale, shift)
        moved["keypoints"] = points
    if objects.polygons is not None:
        moved["polygons"] = [[_moved(part, scale, shift) for part in parts] for parts in objects.polygons]
    if objects.runs is not None:
        moved["runs"] = [
            runs_of_mask(resize_mask(mask_of_runs(runs, *source), geometry, 0)) if len(runs) else runs
            for runs in objects.runs
        ]
    return replace(objects, **moved)


def _moved(points: Floats, scale: npt.NDArray[np.float64], shift: npt.NDArray[np.float64]) -> Floats:
    return (points * scale + shift).astype(np.float32)


def clip_objects(objects: Annotations, size: tuple[int, int]) -> tuple[Annotations, npt.NDArray[np.float64]]:
    """Clip the boxes of one image at its edges; ``size`` is its height and width, pixels."""
    height, width = size
    before = objects.boxes.astype(np.float64)
    boxes = before.clip(0, (width, height, width, height))
    area, inside = (np.prod(corners[:, 2:] - corners[:, :2], axis=1) for corners in (before, boxes))
    return replace(objects, boxes=boxes.astype(np.float32)), np.divide(
        inside, area, out=np.zeros_like(area), where=area > 0
    )


def resize_mask(mask: npt.NDArray[Any], geometry: ResizeGeometry, fill: int) -> npt.NDArray[Any]:
    """A mask of the source, (H, W), resized by nearest pixels; ``fill`` is the value of padding."""
    top, left, height, width = geometry.dest
    out = np.full(geometry.size, fill, mask.dtype)
    rows = _nearest(geometry.region[0], geometry.region[2], height, mask.shape[0])
    columns = _nearest(geometry.region[1], geometry.region[3], width, mask.shape[1])
    out[top : top + height, left : left + width] = mask[rows[:, None], columns]
    return out


def _nearest(start: float, stop: float, number: int, size: int) -> npt.NDArray[np.int64]:
    centers = start + (2 * np.arange(number) + 1) * (stop - start) / (2 * number)
    return np.minimum(centers.astype(np.int64), size - 1)
