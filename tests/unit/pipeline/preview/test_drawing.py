"""Marks of objects, drawn on images."""

from __future__ import annotations

import re

import numpy as np

from stoker.pipeline.preview.drawing import Legend, Marks, color_of, draw_marks, named_marks, shorten

LEGEND = Legend(lambda label: f"thing {label}", ((0, 1),))


def test_a_box_is_drawn_along_its_edges_and_named():
    marks = Marks(np.array([1]), np.array([False]), np.array([[20.0, 30, 80, 70]]))
    layer = np.asarray(draw_marks(marks, (100, 100), (200, 200), LEGEND))
    assert layer.shape == (200, 200, 4)
    for row, column in ((61, 100), (138, 100), (100, 41), (100, 158)):
        assert layer[row, column, 3] > 200
        np.testing.assert_allclose(layer[row, column, :3], color_of(1), atol=40)
    assert not layer[100, 100].any()
    assert (layer[46:60, 42:78, 3] > 150).mean() > 0.9  # the name, above the box
    double = draw_marks(marks, (100, 100), (200, 200), LEGEND, 2)
    assert np.count_nonzero(np.asarray(double)) > np.count_nonzero(layer)


def test_labelled_keypoints_and_their_skeleton_are_drawn():
    points = np.array([[(20.0, 20, 2), (80, 80, 1)], [(20, 80, 2), (0, 0, 0)]])
    marks = Marks(np.arange(2), np.zeros(2, bool), np.zeros((2, 4)), keypoints=points)
    layer = np.asarray(draw_marks(marks, (100, 100), (200, 200), LEGEND))
    np.testing.assert_allclose(layer[40, 40, :3], color_of(0), atol=30)
    np.testing.assert_allclose(layer[160, 160, :3], 255, atol=30)  # hidden: hollow
    assert layer[100, 100, 3] > 150  # the bone
    np.testing.assert_allclose(layer[160, 40, :3], color_of(1), atol=30)
    assert not layer[100, 20:60, 3].any()


def test_small_objects_are_drawn_over_large_ones():
    boxes = np.array([[40.0, 40, 60, 60], [0, 0, 100, 100]])
    masks = np.zeros((2, 100, 100), np.uint8)
    masks[0, 40:60, 40:60] = masks[1] = 1
    marks = Marks(np.array([4, 5]), np.zeros(2, bool), boxes, masks=masks)
    layer = np.asarray(draw_marks(marks, (100, 100), (100, 100), LEGEND)).astype(float)
    assert np.abs(layer[50, 50, :3] - color_of(4)).sum() < np.abs(layer[50, 50, :3] - color_of(5)).sum()


def test_a_long_name_is_shortened_in_its_middle():
    short = shorten("a/very/long/path/of/an/image/in/a/folder.jpg", 120, 12)
    assert re.fullmatch(r"a/very.*….*older\.jpg", short)
    assert shorten("short", 120, 12) == "short"
    assert shorten("two\nlines", 120, 12) == "two lines"


def test_names_of_any_length_stay_within_their_image():
    marks = Marks(np.array([0, 1]), np.zeros(2, bool), np.array([[5.0, 30, 60, 60], [50, 70, 95, 95]]))
    legend = Legend(lambda label: f"a name without end {label} " * 500)
    names = named_marks(marks, (100, 100), (200, 300), legend, 1)
    assert [name.number for name in names] == [1, 0]
    for name in names:
        assert name.text.startswith("a name")
        assert "…" in name.text
        assert 0 <= name.rectangle[0] < name.rectangle[2] <= 300
        assert 0 <= name.rectangle[1] < name.rectangle[3] <= 200
