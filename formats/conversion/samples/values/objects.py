"""Objects of samples from Python: boxes, labels, keypoints and masks as :class:`Annotations`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

from ....dataset.annotations import Annotations, checked_runs, decompress_runs, runs_of_mask

Floats = npt.NDArray[np.float32]
Runs = npt.NDArray[np.uint32]

BOX_FORMATS = ("XYXY", "XYWH", "CXCYWH")
OBJECT_FIELDS = ("boxes", "box_labels", "crowd", "area", "object_id", "keypoints", "masks")
"""Arguments of a sample that describe its objects; ``boxes`` and ``box_labels`` are there in all of them."""

OPTIONAL_FIELDS = frozenset({"crowd", "area", "object_id"})
"""Those of them that have a default, and may be missing in a sample."""

_FARTHEST = 1e18  # pixels; the square, an area, still is a float32


def make_objects(
    arguments: Mapping[str, Any], labels: Sequence[int], box_format: str, keypoints: int | None, key: str
) -> Annotations:
    """Return the M objects of one sample."""
    boxes = _boxes(arguments["boxes"], box_format, key)
    number = len(boxes)
    sides = boxes[:, 2:] - boxes[:, :2]
    default = {"crowd": np.zeros(number), "area": sides[:, 0] * sides[:, 1], "object_id": np.arange(number)}
    columns = {
        name: _of_each(name, arguments.get(name, default[name]), number, dtype, key)
        for name, dtype in (("crowd", bool), ("area", np.float32), ("object_id", np.int64))
    }
    polygons, runs = _masks(arguments["masks"], number, key) if "masks" in arguments else (None, None)
    if len(labels) != number:
        raise ConfigError(f"box_labels has {len(labels)} labels for {number} boxes", key=key)
    return Annotations(
        owner=np.zeros(number, np.int64),
        boxes=boxes,
        labels=np.array(labels, np.int64),
        crowd=columns["crowd"],
        area=columns["area"],
        id=columns["object_id"],
        keypoints=_keypoints(arguments["keypoints"], number, keypoints, key)
        if "keypoints" in arguments
        else None,
        polygons=polygons,
        runs=runs,
    )


def _numbers(name: str, value: Any, dtype: Any, key: str) -> npt.NDArray[Any]:
    try:
        return np.asarray(value, dtype)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise ConfigError(f"{name} holds no numbers: {error}", key=key) from error


def _boxes(value: Any, box_format: str, key: str) -> Floats:
    boxes = _numbers("boxes", value, np.float64, key)
    if boxes.size == 0:
        boxes = boxes.reshape(0, 4)
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise ConfigError(f"boxes has the shape {boxes.shape}, and boxes have (M, 4)", key=key)
    if box_format == "XYWH":
        boxes = np.concatenate((boxes[:, :2], boxes[:, :2] + boxes[:, 2:]), axis=1)
    elif box_format == "CXCYWH":
        half = boxes[:, 2:] / 2
        boxes = np.concatenate((boxes[:, :2] - half, boxes[:, :2] + half), axis=1)
    bad = ~(np.abs(boxes) < _FARTHEST).all(axis=1) | ~(boxes[:, 2:] > boxes[:, :2]).all(axis=1)
    if bad.any():
        index = int(np.flatnonzero(bad)[0])
        shown = ", ".join(f"{side:g}" for side in boxes[index])
        raise ConfigError(
            f"boxes: box {index} has no area or is not finite: {shown} as left, top, right, bottom",
            key=key,
            hint=f"boxes are read as box_format={box_format!r}",
        )
    return boxes.astype(np.float32)


def _of_each(name: str, value: Any, number: int, dtype: Any, key: str) -> npt.NDArray[Any]:
    values = _numbers(name, value, dtype, key)
    if values.shape != (number,):
        raise ConfigError(f"{name} has the shape {values.shape} for {number} boxes", key=key)
    return values


def _keypoints(value: Any, number: int, each: int | None, key: str) -> Floats:
    points = _numbers("keypoints", value, np.float32, key)
    if number == 0 and points.size == 0:
        return np.zeros((0, each or 0, 3), np.float32)
    if points.ndim == 2 and points.shape[1] % 3 == 0:  # COCO's flat lists
        points = points.reshape(len(points), -1, 3)
    if points.shape != (number, points.shape[1] if each is None and points.ndim == 3 else each, 3):
        raise ConfigError(
            f"keypoints has the shape {points.shape}, and {number} boxes have ({number}, {each or 'K'}, 3)",
            key=key,
            hint="every object has K keypoints of x, y and visibility, the same K in all samples",
        )
    return points


def _masks(value: Any, number: int, key: str) -> tuple[list[list[Floats]], list[Runs]]:
    """The polygons and the run lengths of each object; one of both is empty."""
    if len(value) != number:
        raise ConfigError(f"masks has {len(value)} masks for {number} boxes", key=key)
    parts = [_parts(mask, index, key) for index, mask in enumerate(value)]
    return [polygons for polygons, _ in parts], [runs for _, runs in parts]


def _parts(mask: Any, index: int, key: str) -> tuple[list[Floats], Runs]:
    """The polygons of a mask, or its run lengths; errors name its ``index``."""
    try:
        if isinstance(mask, Sequence) and not isinstance(mask, (str, bytes)):
            return [_polygon(polygon) for polygon in mask], np.zeros(0, np.uint32)
        return [], _runs(mask)
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise ConfigError(
            f"masks: mask {index} cannot be read: {error}",
            key=key,
            hint="a mask is an array (H, W), a list of polygons, or COCO's size and counts",
        ) from error


def _polygon(value: Any) -> Floats:
    points = np.asarray(value, np.float32).reshape(-1, 2)
    if len(points) < 3 or not np.isfinite(points).all():
        raise ValueError("a polygon has three vertices or more, all of them finite")
    return points


def _runs(mask: Any) -> Runs:
    """Run lengths of COCO's form, compressed or not, or of an array (H, W)."""
    if isinstance(mask, Mapping):
        counts = mask["counts"]
        if isinstance(counts, bytes):
            counts = counts.decode("ascii")
        return decompress_runs(counts) if isinstance(counts, str) else checked_runs(counts)
    pixels = np.asarray(mask)
    if pixels.ndim != 2:
        raise ValueError(f"it has the shape {pixels.shape}, not (H, W)")
    return runs_of_mask(pixels != 0)


def upper_box_format(name: str) -> str:
    """Return the format of boxes in upper case."""
    if name not in (*BOX_FORMATS, *map(str.lower, BOX_FORMATS)):
        raise ConfigError(f"box_format must be one of {', '.join(BOX_FORMATS)}, not {name!r}")
    return name.upper()
