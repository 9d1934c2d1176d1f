"""Objects of a batch: the images that they belong to, their padded form, and their areas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stoker.augment import CenterCrop, RandomHorizontalFlip, RandomPerspective, RandomRotation, Resize
from stoker.augment.plan import compile_image
from stoker.formats.dataset.annotations import Annotations
from stoker.pipeline.images.objects import BatchObjects, ObjectConfig, pad, transform_objects


def objects(counts: list[int]) -> BatchObjects:
    owner = np.repeat(np.arange(len(counts)), counts)
    m = len(owner)
    return BatchObjects(owner, {"boxes": np.arange(4.0 * m).reshape(m, 4), "object_id": np.arange(m)})


def test_objects_follow_their_images_into_another_order_and_are_repeated_with_them() -> None:
    chosen = objects([2, 0, 3, 1]).of_samples(np.array([2, 0, 2, 1]), 4)
    assert chosen.owner.tolist() == [0, 0, 0, 1, 1, 2, 2, 2]
    assert chosen.columns["object_id"].tolist() == [2, 3, 4, 0, 1, 2, 3, 4]
    assert chosen.counts(4).tolist() == [3, 2, 3, 0]


def test_a_batch_without_images_has_no_objects() -> None:
    chosen = objects([2, 1]).of_samples(np.array([], np.int64), 2)
    assert len(chosen) == 0
    assert chosen.column("boxes", ObjectConfig()).shape == (0, 4)


@pytest.mark.parametrize("counts", [[2, 0, 3], [0, 0], []])
def test_pad_fills_rows_with_zeros(counts: list[int]) -> None:
    values = np.arange(1, 2 * sum(counts) + 1, dtype=np.float32).reshape(-1, 2)
    padded = pad(values, np.array(counts, np.int64))
    assert padded.shape == (len(counts), max(counts, default=0), 2)
    assert padded.dtype == np.float32
    for part, count, whole in zip(np.split(values, np.cumsum(counts)), counts, padded, strict=False):
        assert np.array_equal(whole[:count], part)
        assert not whole[count:].any()


def transformed(transforms: list[Any], box: list[float], area: float) -> BatchObjects:
    """An object of an image of 100 x 100 pixels after the transforms."""
    size, zero = np.array([100]), np.zeros(1, np.int64)
    params = compile_image(transforms).draw(size, size, zero, 0, 0)
    boxes, areas = np.array([box], np.float32), np.array([area], np.float32)
    annotations = Annotations(zero, boxes, zero, zero > 0, areas, zero)
    return transform_objects(annotations, params, size, size, ObjectConfig(columns=frozenset({"area"})))


@pytest.mark.parametrize(
    ("transforms", "expected"),
    [
        ([Resize((50, 200))], 300.0),
        ([Resize((50, 50)), RandomHorizontalFlip(1.0)], 75.0),
        ([CenterCrop(60)], 150.0),  # half of the box lies within
        ([Resize((50, 50)), RandomRotation((45, 45))], 75.0),
    ],
)
def test_areas_scale_with_the_image_and_with_the_visible_share(
    transforms: list[Any], expected: float
) -> None:
    """An object that covers three quarters of its box, 20 x 20."""
    objects = transformed(transforms, [10, 40, 30, 60], 300.0)
    assert objects.columns["area"] == pytest.approx([expected], rel=1e-6)


def test_areas_in_perspective_scale_as_at_the_centre_of_the_box() -> None:
    transforms = [Resize((100, 100)), RandomPerspective(0.5, p=1)]
    objects = transformed(transforms, [49, 49, 51, 51], 4.0)
    left, top, right, bottom = objects.columns["boxes"][0]
    box_area = (right - left) * (bottom - top)
    assert 0.3 * box_area < objects.columns["area"][0] <= box_area
