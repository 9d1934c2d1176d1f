"""Areas of the objects of a batch under the transforms of their images."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stoker.augment import CenterCrop, RandomHorizontalFlip, RandomPerspective, RandomRotation, Resize
from stoker.augment.plan import compile_image
from stoker.formats.dataset.annotations import Annotations
from stoker.pipeline.images.objects import BatchObjects, ObjectConfig, transform_objects


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
