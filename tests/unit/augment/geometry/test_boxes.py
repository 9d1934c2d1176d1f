"""Boxes: conversions of formats, and what a window shows of quadrilaterals."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.augment.geometry.boxes import clip_boxes, clip_quads, convert_boxes, corners
from stoker.errors import ConfigError


def test_boxes_are_converted_between_formats():
    assert convert_boxes([10, 20, 40, 80], "XYXY", "XYWH").tolist() == [10, 20, 30, 60]
    assert convert_boxes([10, 20, 40, 80], "XYXY", "CXCYWH").tolist() == [25, 50, 30, 60]
    assert convert_boxes([[25, 50, 30, 60]], "CXCYWH", "XYWH").tolist() == [[10, 20, 30, 60]]
    assert convert_boxes([10, 20, 40, 80], "xyxy", "cxcywh").tolist() == [25, 50, 30, 60]
    with pytest.raises(ConfigError, match="target must be one of XYXY, XYWH, CXCYWH, found 'XyXy'"):
        convert_boxes([0, 0, 1, 1], "XYXY", "XyXy")


def test_a_diamond_at_the_corner_has_the_box_and_share_of_its_tip():
    diamond = np.array([[(0, -4), (4, 0), (0, 4), (-4, 0)]], float)
    box, share = clip_quads(diamond, (10, 10))
    assert box.tolist() == [[0, 0, 4, 4]]
    np.testing.assert_allclose(share, 0.25)


def test_quadrilaterals_around_and_outside_of_the_window_and_at_infinity_are_clipped():
    quads = np.array(
        [
            [(-50, 5), (5, -50), (60, 5), (5, 60)],
            [(20, 20), (30, 20), (30, 30), (20, 30)],
            [(0, 0), (np.inf, 0), (1, 1), (0, 1)],
        ]
    )
    boxes, share = clip_quads(quads, (10, 10))
    assert boxes.tolist() == [[0, 0, 10, 10], [0] * 4, [0] * 4]
    np.testing.assert_allclose(share, [100 / (55 * 110), 0, 0])


def test_clipping_agrees_with_a_count_of_points():
    rng = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(np.arange(-100, 200), np.arange(-100, 200)), axis=-1) / 5 + 0.1
    for turn in range(30):
        angle = rng.random() * 6.3
        axes = np.array([(np.cos(angle), np.sin(angle)), (-np.sin(angle), np.cos(angle))])
        half, center = rng.uniform(2, 9, 2), rng.uniform(-2, 18, 2)
        signs = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)])[:: 1 if turn % 2 else -1]
        box, share = clip_quads((center + (signs * half) @ axes)[None], (16, 16))
        inside = (np.abs((grid - center) @ axes.T) < half).all(axis=-1)
        window = ((grid > 0) & (grid < 16)).all(axis=-1)
        shown = grid[inside & window]
        assert abs(share[0] - len(shown) / inside.sum()) < 0.03
        if len(shown) > 50:
            np.testing.assert_allclose(box[0], (*shown.min(axis=0), *shown.max(axis=0)), atol=1)


def test_upright_boxes_are_clipped_like_quadrilaterals() -> None:
    rng = np.random.default_rng(5)
    low = rng.uniform(-30, 60, (500, 2))
    boxes = np.concatenate((low, low + rng.uniform(0, 50, (500, 2)) * (rng.random((500, 2)) > 0.05)), axis=1)
    seen, share = clip_boxes(boxes, (40, 50))
    expected, expected_share = clip_quads(corners(boxes), (40, 50))
    assert np.allclose(seen, expected)
    assert np.allclose(share, expected_share)
