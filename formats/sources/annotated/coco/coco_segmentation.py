"""The ``segmentation`` of an object in COCO's JSON: polygons, or run lengths of a mask."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from ....dataset.columns.run_lengths import checked_runs, decompress_runs
from ..object_issues import BadObjectError, numbers

__all__ = ["is_size", "read_polygons", "read_runs"]


def is_size(value: Any) -> bool:
    """Whether a value is a whole number of pixels above 0, such as a height."""
    return type(value) in (int, float) and 0 < value < 1 << 31 and value == int(value)


def read_polygons(value: Any) -> tuple[list[list[float]], Counter[str]]:
    """Return the polygons, x and y of each point in turn; and the reasons for which others are left out."""
    polygons = value if isinstance(value, list) else [value] if value else []
    if isinstance(value, list) and value and numbers(value):
        polygons = [polygons]  # one polygon without the list around it
    problems = [_problem(part) for part in polygons]
    good = [part for part, problem in zip(polygons, problems, strict=True) if not problem]
    return good, Counter(filter(None, problems))


def _problem(polygon: Any) -> str:
    """What is wrong with a polygon; empty if nothing is."""
    if not numbers(polygon):
        return "polygon with values that are no numbers"
    if len(polygon) % 2:
        return "polygon whose last point has no y"
    return "" if len(polygon) >= 6 else "polygon of less than three points"


def read_runs(value: dict[str, Any]) -> tuple[npt.NDArray[np.uint32], tuple[int, int]]:
    """Return run lengths, and the height and width of their mask.

    Raises:
        BadObjectError: They are broken, or do not fill the mask.
    """
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
