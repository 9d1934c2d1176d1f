"""The objects of an image, checked and resized with it, and the geometry of resizing.

The arithmetic equals the C++ function ``transcode``, which resizes the pixels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ..dataset.annotations import Annotations, mask_of_runs, runs_of_mask
from ..sources.image_files import SkippedError

Floats = npt.NDArray[np.float32]
ResizeMode = Literal["none", "shorter", "longer", "squash", "crop", "fill"]


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
    if objects.corners is not None:
        moved["corners"] = _moved(objects.corners, scale, shift)
    if objects.polygons is not None:
        moved["polygons"] = [[_moved(part, scale, shift) for part in parts] for parts in objects.polygons]
    if objects.runs is not None:
        moved["runs"] = [
            runs_of_mask(resize_mask(mask_of_runs(runs, *source), geometry, 0)) if len(runs) else runs
            for runs in objects.runs
        ]
    return replace(objects, **moved)


# Of each EXIF orientation (Exif 2.32, tag 274): whether it exchanges the axes, and then mirrors x and y.
_TURNS = {
    1: (False, False, False),
    2: (False, True, False),
    3: (False, True, True),
    4: (False, False, True),
    5: (True, False, False),
    6: (True, True, False),
    7: (True, True, True),
    8: (True, False, True),
}


OTHER_TURN = "image that its EXIF orientation turns and its annotations do not, or the reverse"


def turned_size(size: tuple[int, int], orientation: int) -> tuple[int, int]:
    """Height and width after an EXIF orientation, or before it."""
    return (size[1], size[0]) if _TURNS[orientation][0] else size


def check_size(
    reason: str, size: tuple[int, int], source: tuple[int, int], orientation: int, before_exif: bool
) -> None:
    """Raise SkippedError if annotations or a mask were made for an image of another height and width."""
    # ``source`` is the image's size after its EXIF orientation.
    before = turned_size(source, orientation)
    if size != (before if before_exif else source):
        detail = f"{source[1]} x {source[0]} as shown, and {size[1]} x {size[0]} where it is annotated"
        if size in (before, source):
            reason, detail = OTHER_TURN, f"{detail}; its EXIF orientation is {orientation}"
        raise SkippedError(reason, detail)


def turn_pixels(pixels: npt.NDArray[Any], orientation: int) -> npt.NDArray[Any]:
    """A mask, (H, W), after an EXIF orientation."""
    transposed, *mirrored = _TURNS[orientation]
    pixels = pixels.T if transposed else pixels
    return pixels[:: -1 if mirrored[1] else 1, :: -1 if mirrored[0] else 1]


def turn_objects(
    objects: Annotations, orientation: int, size: tuple[int, int], swap: Sequence[int], *, relative: bool
) -> Annotations:
    """Objects in the pixels of an image after its EXIF orientation; ``size`` is its size after that."""
    transposed, *mirrored = _TURNS[orientation]
    limits = (1, 1) if relative else size[::-1]

    def turned(points: Floats) -> Floats:
        points = points[..., ::-1] if transposed else points
        return np.where(mirrored, limits - points, points).astype(np.float32)

    corners = turned(objects.boxes.reshape(-1, 2, 2))
    moved: dict[str, Any] = {"boxes": np.sort(corners, axis=1).reshape(-1, 4)}
    if objects.keypoints is not None:
        points = np.concatenate((turned(objects.keypoints[..., :2]), objects.keypoints[..., 2:]), axis=-1)
        points[points[..., 2] == 0] = 0
        # The left eye in a mirrored image is the right eye in the image as shown.
        is_mirror = transposed ^ mirrored[0] ^ mirrored[1]
        moved["keypoints"] = points[:, list(swap)] if is_mirror and len(swap) else points
    if objects.corners is not None:
        moved["corners"] = turned(objects.corners)
    if objects.polygons is not None:
        moved["polygons"] = [[turned(part) for part in parts] for parts in objects.polygons]
    if objects.runs is not None:
        before = turned_size(size, orientation)
        moved["runs"] = [
            runs_of_mask(turn_pixels(mask_of_runs(runs, *before), orientation))
            if runs.sum(dtype=np.int64) == size[0] * size[1]
            else runs
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


_GREY, _INDEXED = 0, 3  # colour types of PNG


class Dropped(NamedTuple):
    """An object that was left out, or a part of one."""

    object: int  # Its index among the objects of the image
    reason: str  # The reason
    detail: str  # Numbers that explain it
    broken: bool  # Whether the source is wrong; else the resizing has cut the object off


def fit_objects(
    objects: Annotations, source: tuple[int, int], geometry: ResizeGeometry, *, relative: bool
) -> tuple[Annotations, list[Dropped]]:
    """Check the objects of one image, in the source's coordinates, and resize them with it."""
    # ``source`` is the image's height and width there, in pixels; ``relative`` coordinates are shares of
    # these.
    #
    # Boxes are clipped at the edges of the image; a negative area is that of the box, as the source states
    # none, and shrinks with it. Where a crop is stored, boxes are clipped at its edges, too, areas shrink
    # with them, and keypoints outside become unlabelled; polygons keep the vertices outside.
    if relative:
        unit = ResizeGeometry((0, 0, 1, 1), (0, 0, *source), source)
        runs = objects.runs  # these are of pixels
        objects = replace(resize_objects(replace(objects, runs=None), unit, source), runs=runs)
    before = objects.boxes
    objects, share = clip_objects(objects, source)
    area = np.where(objects.area < 0, -objects.area * share, objects.area).astype(np.float32)
    objects = replace(objects, area=area)
    dropped = [
        Dropped(i, "object outside its image", f"box {_box(before[i])} in {source[1]} x {source[0]}", True)
        for i in np.flatnonzero(share <= 0).tolist()
    ]
    dropped += _wrong_runs(objects, source)
    objects, unlabelled = _without_far_keypoints(objects, source)
    kept = np.arange(len(objects))
    if dropped:
        kept = np.delete(kept, [drop.object for drop in dropped])
        objects = objects.take(kept)
    dropped += unlabelled
    if geometry.is_identity:
        return objects, dropped
    objects, share = clip_objects(resize_objects(objects, geometry, source), geometry.size)
    objects.area[:] *= share
    if objects.keypoints is not None:
        _unlabel_outside(objects.keypoints, geometry)
    beyond = np.flatnonzero(share <= 0)
    dropped += [Dropped(i, "object outside the crop", "", False) for i in kept[beyond].tolist()]
    return objects.take(share > 0) if len(beyond) else objects, dropped


def _box(box: npt.NDArray[np.float32]) -> str:
    return ", ".join(f"{value:g}" for value in box)


def _wrong_runs(objects: Annotations, source: tuple[int, int]) -> list[Dropped]:
    pixels = source[0] * source[1]
    sums = [int(runs.sum(dtype=np.int64)) if len(runs) else pixels for runs in objects.runs or ()]
    return [
        Dropped(i, "run lengths of another size than the image", f"{number} pixels, not {pixels}", True)
        for i, number in enumerate(sums)
        if number != pixels
    ]


def _without_far_keypoints(
    objects: Annotations, source: tuple[int, int]
) -> tuple[Annotations, list[Dropped]]:
    """Unlabel the keypoints that lie outside the image by more than its width or height."""
    if objects.keypoints is None:
        return objects, []
    size = np.array([source[1], source[0]], np.float32)
    points, labelled = objects.keypoints[..., :2], objects.keypoints[..., 2] > 0
    far = labelled & ((points < -size) | (points > 2 * size)).any(axis=-1)
    if not far.any():
        return objects, []
    dropped = []
    for i, k in np.argwhere(far).tolist():
        x, y = points[i, k].tolist()
        detail = f"{x:g}, {y:g} in {source[1]} x {source[0]}"
        dropped.append(Dropped(i, "keypoint far outside its image", detail, True))
    return replace(objects, keypoints=np.where(far[..., None], np.float32(0), objects.keypoints)), dropped


def _unlabel_outside(keypoints: npt.NDArray[np.float32], geometry: ResizeGeometry) -> None:
    top, left, height, width = geometry.dest
    low, high = (left, top), (left + width, top + height)
    inside = ((keypoints[..., :2] >= low) & (keypoints[..., :2] <= high)).all(axis=-1)
    keypoints[~inside | (keypoints[..., 2] == 0)] = 0
