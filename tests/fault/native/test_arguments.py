"""Arguments of other sizes for the C++ that draws masks and moves objects; each call has right ones first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stoker import _native

HORIZON = np.full((1, 3, 3), np.nan)
IMAGE = {"matrix": np.eye(3)[None], "region": np.array([[0.0, 0, 4, 4]]), "shown": np.ones(1, bool)}
SIZE = {"height": np.array([4], np.int32), "width": np.array([4], np.int32)}
OBJECTS = {"out": np.zeros((2, 5, 5), np.uint8), "owner": np.zeros(2, np.int64), **IMAGE}
MOVED = {
    "owner": np.array([0, 1]),
    "size": (9, 9),
    "region": np.tile([0.0, 0, 9, 9], (2, 1)),
    "dest": np.tile([0, 0, 9, 9], (2, 1)).astype(np.int32),
    "flip": np.zeros((2, 2), bool),
    "shown": np.ones(2, bool),
}
POLYGONS = {"points": np.ones((3, 2)), "sizes": np.array([3]), "polygons": np.array([1, 0])}
RIGHT: dict[str, dict[str, Any]] = {
    "fill_polygons": {**OBJECTS, **POLYGONS},
    "fill_runs": {**OBJECTS, **SIZE, "runs": np.array([16], np.uint32), "counts": np.array([1, 0])},
    "class_masks": {"out": np.zeros((1, 5, 5), np.uint8), "data": [b""], **IMAGE, **SIZE, "fill": 0},
    "transform_boxes": {
        **MOVED,
        "boxes": np.zeros((2, 4), np.float32),
        "window": None,
        "min_visible": 0.0,
        "min_size": 0.0,
    },
    "transform_keypoints": {
        **MOVED,
        "keypoints": np.zeros((2, 5, 3), np.float32),
        "swap": np.array((0, 2, 1, 4, 3)),
    },
}
WRONG: dict[str, list[dict[str, Any]]] = {
    "fill_polygons": [
        {"owner": np.zeros(3, np.int64)},
        {"owner": np.array([0, 1])},
        {"owner": np.array([0, -1])},
        {"region": np.zeros((2, 4))},
        {"region": np.full((1, 4), np.nan)},
        {"matrix": np.full((1, 3, 3), np.inf)},
        {"shown": np.ones(2, bool)},
        {"out": np.zeros((2, 0, 5), np.uint8)},
        {"polygons": np.array([1])},
        {"polygons": np.array([2, -1])},
        {"polygons": np.array([1, 1])},
        {"sizes": np.array([4])},
        {"sizes": np.array([2**62])},
        {"points": np.full((3, 2), np.nan)},
    ],
    "fill_runs": [
        {"height": np.array([5], np.int32)},
        {"height": np.array([4, 4], np.int32)},
        {"width": np.array([0], np.int32)},
        {"region": np.array([[0.0, 0, 4.1, 4]])},
        {"region": np.array([[0.0, -0.1, 4, 4]])},
        {"counts": np.array([1, 1])},
        {"counts": np.array([2**62, 0])},
        {"runs": np.array([15], np.uint32)},
    ],
    "class_masks": [
        {"data": []},
        {"out": np.zeros((2, 5, 5), np.uint8)},
        {"out": np.zeros((1, 5, 0), np.uint8)},
        {"region": np.zeros((2, 4))},
        {"region": np.array([[0.0, 0, 5, 4]])},
        {"matrix": HORIZON},
        {"height": np.array([0], np.int32)},
    ],
    "transform_boxes": [{"window": np.zeros((3, 4))}],
    "transform_keypoints": [{"swap": np.array(swap)} for swap in ([0, 1], [0, 1, 2, 3, 5], [0, 1, 2, 3, -1])],
}
for moving in ("transform_boxes", "transform_keypoints"):
    WRONG[moving] += [
        {"owner": np.array([0, 2])},
        {"owner": np.array([-1, 0])},
        {"owner": np.zeros(3, np.int64)},
        {"region": np.zeros((1, 4))},
        {"dest": np.zeros((3, 4), np.int32)},
        {"flip": np.zeros((1, 2), bool)},
        {"shown": np.ones(1, bool)},
    ]


@pytest.mark.parametrize(("call", "changed"), [(call, one) for call in WRONG for one in WRONG[call]])
def test_arguments_of_other_sizes_are_refused(call: str, changed: dict[str, Any]) -> None:
    function = getattr(_native, call)
    function(**RIGHT[call])
    with pytest.raises(ValueError, match=r"must|window|swap"):
        function(**{**RIGHT[call], **changed})
