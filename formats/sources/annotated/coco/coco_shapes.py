"""The shapes of an object in COCO's JSON: its keypoints, polygons, and run lengths of its mask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from ....dataset.annotations import checked_runs, decompress_runs
from ..object_issues import BadObjectError, numbers
from ..object_table import MOST_KEYPOINTS

_VISIBILITIES = frozenset({0, 1, 2})  # not labelled, hidden, visible


def read_keypoints(value: Any) -> list[float]:
    """Return x, y and visibility of each keypoint of an object, pixels whose edges are integers."""
    if not value:
        return []
    if not numbers(value) or len(value) % 3:
        raise BadObjectError("keypoints that are no triples of numbers", str(value)[:60])
    if len(value) > 3 * MOST_KEYPOINTS:
        raise BadObjectError(f"more than {MOST_KEYPOINTS} keypoints", str(len(value) // 3))
    if wrong := set(value[2::3]) - _VISIBILITIES:
        raise BadObjectError("keypoint whose visibility is not 0, 1 or 2", f"{min(wrong):g}")
    points = list(value)
    for at in range(0, len(points), 3):
        shift = 0.5 if points[at + 2] > 0 else 0.0
        points[at] += shift
        points[at + 1] += shift
    return points


def choose_keypoints(declared: Iterable[int], numbers_of_objects: Iterable[int]) -> tuple[int, str]:
    """Choose the number of keypoints that objects have, from those that categories and objects have."""
    counts, allowed = Counter(numbers_of_objects), set(declared)
    if not counts:
        return 0, ""
    best = max(allowed or counts, key=lambda number: (counts[number], number))
    others = "categories declare" if allowed else "most objects have"
    return best, f"keypoints of another number than {others}"


def is_size(value: Any) -> bool:
    """Whether a value is a whole number of pixels above 0, such as a height."""
    return type(value) in (int, float) and 0 < value < 1 << 31 and value == int(value)


def read_polygons(value: Any) -> tuple[list[list[float]], Counter[str]]:
    """Return the good polygons, x and y of each point in turn; and how many are left out, by reason."""
    polygons = value if isinstance(value, list) else [value] if value else []
    if isinstance(value, list) and value and numbers(value):
        polygons = [polygons]  # one polygon without the list around it
    problems = [_problem(part) for part in polygons]
    good = [part for part, problem in zip(polygons, problems, strict=True) if not problem]
    return good, Counter(filter(None, problems))


def _problem(polygon: Any) -> str:
    """The reason to leave out a polygon; empty for a good one."""
    if not numbers(polygon):
        return "polygon with values that are no numbers"
    if len(polygon) % 2:
        return "polygon whose last point has no y"
    return "" if len(polygon) >= 6 else "polygon of less than three points"


def read_runs(value: dict[str, Any]) -> tuple[npt.NDArray[np.uint32], tuple[int, int]]:
    """Return run lengths, and the height and width of their mask."""
    counts, size = value.get("counts"), value.get("size")
    if not numbers(size) or len(size) != 2 or not all(map(is_size, size)):
        raise BadObjectError("run lengths without a size", str(size)[:60])
    try:
        runs = decompress_runs(counts) if isinstance(counts, str) else checked_runs(counts or [])
    except ValueError as error:
        raise BadObjectError("broken run lengths", str(error)) from error
    if int(runs.sum(dtype=np.int64)) != size[0] * size[1]:
        raise BadObjectError("broken run lengths", f"they do not fill {size[1]} x {size[0]} pixels")
    return runs, (int(size[0]), int(size[1]))
