"""The objects and the mask of one image, checked and resized with it."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from ...codecs.codec import CODECS
from ...codecs.header import grey_bits, open_mask
from ...dataset.annotations import Annotations
from ...sources.mask_pairs import mask_values
from ...sources.source_reader import SkippedError, check_image
from .mask_values import MaskRules
from .resize_geometry import ResizeGeometry, clip_objects, resize_mask, resize_objects

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
    """Check the objects of one image, in the source's coordinates, and resize them with it.

    ``source`` is the image's height and width there, in pixels; ``relative`` coordinates are shares of these.

    Boxes are clipped at the edges of the image. Where a crop is stored, boxes are clipped at its edges, too,
    areas shrink with them, and keypoints outside become unlabelled; polygons keep the vertices outside.
    """
    if relative:
        unit = ResizeGeometry((0, 0, 1, 1), (0, 0, *source), source)
        runs = objects.runs  # these are of pixels
        objects = replace(resize_objects(replace(objects, runs=None), unit, source), runs=runs)
    before = objects.boxes
    objects, share = clip_objects(objects, source)
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


def encode_mask(
    data: bytes, source: tuple[int, int], geometry: ResizeGeometry, rules: MaskRules, limit: int
) -> bytes:
    """A mask as a shard stores it: a PNG with one channel of 8 or 16 bits, whose values are classes.

    A file that is such a PNG is stored as it is, unless it is resized or mapped. In a resized mask each pixel
    takes the value of the nearest pixel of the source. The values of a PNG with a palette are the indexes
    into it; values of less than 8 bits are not scaled.
    """
    try:
        header = check_image(data, limit)
    except SkippedError as error:
        raise SkippedError("broken mask", ": ".join(filter(None, error.args))) from error
    if (header.height, header.width) != source:
        raise SkippedError(
            "mask of another size than its image",
            f"{header.width} x {header.height} and {source[1]} x {source[0]}",
        )
    if CODECS[header.codec].lossy:
        raise SkippedError(f"mask in {header.codec.name}, which changes values", "PNG keeps them")
    bits = grey_bits(data, header.codec)
    if bits == 8 and geometry.is_identity and rules.keeps_bytes:
        return data
    values = rules.classes_of(_colors(data) if rules.has_colors else mask_values(data, bits or 8))
    if bits in (8, 16) and geometry.is_identity and rules.table is None:
        return data
    if rules.padding > np.iinfo(values.dtype).max:  # its padding takes more bits than its classes
        values = values.astype(np.uint16)
    values = resize_mask(values, geometry, rules.padding)
    stream = io.BytesIO()
    Image.fromarray(values).save(stream, "PNG")
    return stream.getvalue()


def _colors(data: bytes) -> npt.NDArray[np.uint8]:
    """Colours of a mask, (H, W, 3) uint8."""
    try:
        with open_mask(data) as image:
            return np.asarray(image.convert("RGB"))
    # Pillow's decoders raise nearly anything on a damaged image.
    except Exception as error:
        raise SkippedError("broken mask", str(error)) from error
