"""Boxes, keypoints and masks of an output in the pixels of the source."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.augment import (
    CenterCrop,
    RandomHorizontalFlip,
    Resize,
    compile_image,
    keypoints_to_source,
    masks_to_source,
    to_source,
)
from stoker.augment.geometry import transform_mask
from stoker.errors import ConfigError

# The output's (x, y) shows the source's (100 - 2 x, 2 y + 4).
MIRRORED = np.array([[-2.0, 0, 100], [0, 2, 4], [0, 0, 1]])
SHIFTED = np.array([[1.0, 0, 7], [0, 1, 0], [0, 0, 1]])


def test_edges_of_pixels_are_integers_in_both() -> None:
    assert to_source([[0, 0, 1, 1]], MIRRORED).tolist() == [[98, 4, 100, 6]]
    assert keypoints_to_source([[[0.5, 0.5]]], MIRRORED).tolist() == [[[99, 5]]]


@pytest.mark.parametrize("box_format", ["XYXY", "XYWH", "CXCYWH"])
def test_a_format_is_that_of_input_and_result(box_format: str) -> None:
    given = {"XYXY": [3, 4, 8, 6], "XYWH": [3, 4, 5, 2], "CXCYWH": [5.5, 5, 5, 2]}[box_format]
    expected = {"XYXY": [84, 12, 94, 16], "XYWH": [84, 12, 10, 4], "CXCYWH": [89, 14, 10, 4]}[box_format]
    assert to_source([given], MIRRORED, box_format=box_format).tolist() == [expected]


def test_a_matrix_serves_an_image_or_a_box() -> None:
    boxes = np.arange(24.0).reshape(2, 3, 4)
    matrices = np.stack((MIRRORED, SHIFTED))
    batch = to_source(boxes, matrices)
    assert np.array_equal(batch[1], to_source(boxes[1], SHIFTED))
    assert np.array_equal(batch.reshape(6, 4), to_source(boxes.reshape(6, 4), matrices[[0, 0, 0, 1, 1, 1]]))
    assert to_source(np.zeros((0, 4)), SHIFTED).shape == (0, 4)
    with pytest.raises(ConfigError, match=r"do not fit matrices of the shape \(3, 3, 3\)"):
        to_source(boxes, np.stack((MIRRORED, SHIFTED, SHIFTED)))


def test_boxes_are_cut_at_the_size_of_their_source() -> None:
    boxes = [[[-5, -5, 30, 30]], [[-9, 0, 5, 20]]]
    cut = to_source(boxes, np.stack((SHIFTED, SHIFTED)), size=[[20, 40], [10, 6]])
    assert cut.tolist() == [[[2, 0, 37, 20]], [[0, 0, 6, 10]]]


def test_a_mask_comes_back_where_it_was_shown() -> None:
    mask = np.random.default_rng(0).integers(0, 9, (20, 30)).astype(np.uint8)
    params = compile_image([CenterCrop((12, 24)), Resize((36, 72)), RandomHorizontalFlip(1)]).draw(
        np.array([20]), np.array([30]), np.zeros(1, np.int64), 0, 0
    )
    shown = np.zeros_like(mask) + 255
    shown[4:16, 3:27] = mask[4:16, 3:27]
    moved = transform_mask(params, 0, mask)
    back = masks_to_source(np.stack((moved, moved)), params.to_source()[0], (20, 30), fill=255)
    assert back.dtype == np.uint8
    assert np.array_equal(back, [shown, shown])


def test_a_perspective_has_a_horizon() -> None:
    tilted = np.array([[1.0, 0, 0], [0, 1, 0], [0, -0.1, 1]])
    far = to_source([[0, 0, 1, 20]], tilted, size=(50, 40))
    assert far.tolist() == [[0, 0, 40, 50]]
    with pytest.raises(ConfigError, match="shows only one line"):
        masks_to_source(np.zeros((2, 2)), np.ones((3, 3)), (2, 2))
