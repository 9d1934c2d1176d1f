"""Keypoints of objects in COCO's JSON: reading those of one, and the number that all objects have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from ..object_issues import BadObjectError, numbers
from ..object_table import MOST_KEYPOINTS

__all__ = ["choose_keypoints", "read_keypoints"]

_VISIBILITIES = frozenset({0, 1, 2})  # not labelled, hidden, visible


def read_keypoints(value: Any) -> list[float]:
    """Return x, y and visibility of each keypoint of an object, pixels whose edges are integers.

    Raises:
        BadObjectError: They are no triples of numbers, too many, or have another visibility than 0, 1 and 2.
    """
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


def choose_keypoints(declared: Iterable[int], found: Iterable[int]) -> tuple[int, str]:
    """Choose the number of keypoints that the objects of a file have.

    Args:
        declared: The numbers of keypoints that categories name.
        found: Number of keypoints of each object that has some.

    Returns:
        The number: one that a category declares, or without one, any; where there are several, that of the
        most objects, then the larger. 0 if no object has keypoints. And the reason to leave out others.
    """
    counts, allowed = Counter(found), set(declared)
    if not counts:
        return 0, ""
    best = max(allowed or counts, key=lambda number: (counts[number], number))
    return (
        best,
        f"keypoints of another number than {'categories declare' if allowed else 'most objects have'}",
    )
