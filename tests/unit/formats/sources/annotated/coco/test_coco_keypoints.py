"""Tests of the keypoints of COCO's objects: their number, and those that are left out."""

from pathlib import Path
from typing import Any

import pytest
from helpers.data.annotations.coco_files import CATEGORIES, NAMES, convert, document, left_out

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")

POINTS = [4, 5, 2, 6, 5, 1, 0, 0, 0]


def _document(numbers: list[int], categories: list[dict[str, Any]]) -> dict[str, Any]:
    """Objects with these numbers of keypoints, one after the other in the file."""
    objects = [
        {"id": at, "image_id": 5, "category_id": 3, "bbox": [1, 1, 3, 3], "keypoints": [4, 5, 2] * number}
        for at, number in enumerate(numbers)
    ]
    return {**document(), "annotations": objects, "categories": categories}


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "majority"])
def test_an_object_with_too_many_keypoints_does_not_cost_others_theirs(folder: Path, declared: bool) -> None:
    categories = CATEGORIES if declared else [{"id": 3, "name": "ape"}]
    dataset = convert(folder, _document([5, 3, 0, 3], categories))
    found = dataset.annotations(range(4)).keypoints
    assert found is not None
    assert found[:, 0].tolist() == [[0, 0, 0], [4.5, 5.5, 2], [0, 0, 0], [4.5, 5.5, 2]]
    expected = "categories declare" if declared else "most objects have"
    assert left_out(dataset) == {
        ("a.png", f"keypoints of another number than {expected}", "annotation 0 of instances.json: 5, not 3")
    }


def test_the_number_that_a_category_declares_outweighs_the_majority(folder: Path) -> None:
    dataset = convert(folder, _document([5, 3, 5], CATEGORIES))
    assert dataset.manifest.annotations.keypoints == tuple(NAMES)
    assert list(dataset.manifest.skipped.values()) == [2]


@pytest.mark.parametrize(
    ("points", "reason"),
    [
        ([*POINTS[:8], 7], "keypoint whose visibility is not 0, 1 or 2"),
        ([*POINTS[:8], -1], "keypoint whose visibility is not 0, 1 or 2"),
        ([*POINTS[:8], 0.5], "keypoint whose visibility is not 0, 1 or 2"),
        (POINTS[:8], "keypoints that are no triples of numbers"),
        ("4 5 2", "keypoints that are no triples of numbers"),
    ],
)
def test_keypoints_that_cannot_be_read_are_left_out_with_a_reason(
    folder: Path, points: Any, reason: str
) -> None:
    content = _document([3, 3], CATEGORIES)
    content["annotations"][0]["keypoints"] = points
    dataset = convert(folder, content)
    assert dataset.manifest.skipped == {reason: 1}
    found = dataset.annotations(range(4)).keypoints
    assert found is not None
    assert not found[0].any()
    assert found[1].all()
