"""Instance masks: polygons against a slow test of every pixel, run lengths by hand, both under parameters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from stoker.augment import (
    CenterCrop,
    RandomResizedCrop,
    compile_image,
)
from stoker.augment.geometry.annotations import nearest
from stoker.augment.geometry.masks import (
    decode_runs,
    encode_runs,
    fill_polygons,
    mask_boxes,
    transform_segments,
)
from stoker.errors import ConfigError

HEIGHT, WIDTH = 90, 120
ONE = np.zeros(1, np.int64)
STAR = np.array([(60, 5), (75, 80), (10, 30), (110, 30), (45, 80)], np.float32)


def draw(transforms, n=1):
    plan = compile_image(transforms)
    return plan.draw(np.full(n, HEIGHT), np.full(n, WIDTH), np.arange(n), 0, 0)


def even_odd(polygon, size):
    """Whether a ray to the left of each pixel's centre crosses the outline an odd number of times.

    2 where the centre lies so near to the outline that rounding decides.
    """
    mask = np.zeros(size, np.uint8)
    for row, column in np.ndindex(size):
        x, y = column + 0.5, row + 0.5
        odd = near = False
        for (x0, y0), (x1, y1) in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
            if (y0 <= y) != (y1 <= y):
                crossing = x0 + (y - y0) * (x1 - x0) / (y1 - y0)
                near |= abs(crossing - x) < 1e-9
                odd ^= crossing < x
        mask[row, column] = 2 if near else odd
    return mask


coordinate = st.floats(-5, 25, width=32).map(lambda x: x + 0.013)  # no vertex in a row of centres


@given(st.lists(st.tuples(coordinate, coordinate), min_size=3, max_size=7))
def test_filled_polygons_have_the_pixels_inside_their_outline(polygon):
    points = np.array(polygon)
    expected = even_odd(points, (18, 21))
    assert (fill_polygons([points], (18, 21)) == expected)[expected < 2].all()


def test_polygons_of_an_object_are_united_and_neighbours_share_no_pixel():
    left = np.array([(2, 2), (8.5, 2), (8.5, 7), (2, 7)])
    right = left + np.array((6.5, 0))
    both = fill_polygons([left, right], (12, 20))
    assert both.sum() == fill_polygons([left], (12, 20)).sum() + fill_polygons([right], (12, 20)).sum()
    assert mask_boxes(both[None]).tolist() == [[2, 2, 15, 7]]
    assert fill_polygons([left, left], (12, 20)).sum() == 30


@given(hnp.arrays(np.uint8, hnp.array_shapes(min_dims=2, max_dims=2, max_side=9), elements=st.integers(0, 1)))
def test_run_lengths_survive_a_round_trip(mask):
    runs = encode_runs(mask)
    assert runs.dtype == np.uint32
    assert runs.sum() == mask.size
    assert (runs[1:] > 0).all()
    np.testing.assert_array_equal(decode_runs(runs, mask.shape), mask)


def test_run_lengths_go_down_the_columns_and_begin_with_zeros():
    mask = np.array([[0, 1, 1], [0, 0, 1]])
    assert encode_runs(mask).tolist() == [2, 1, 1, 2]
    assert encode_runs(1 - mask).tolist() == [0, 2, 1, 1, 2]
    assert decode_runs([0, 2, 1, 1, 2], (2, 3)).tolist() == (1 - mask).tolist()


def test_run_lengths_of_another_size_are_refused():
    with pytest.raises(ConfigError, match="run lengths must sum to 3 x 3 pixels; they sum to 6"):
        decode_runs(np.array([2, 4]), (3, 3))


def test_boxes_of_masks_enclose_their_pixels():
    masks = np.zeros((3, 9, 12), np.uint8)
    masks[0, 2:5, 3:10] = 1
    masks[2] = 7
    assert mask_boxes(masks).tolist() == [[3, 2, 10, 5], [0, 0, 0, 0], [0, 0, 12, 9]]
    assert mask_boxes(masks[:0]).shape == (0, 4)


def test_parts_that_were_cut_away_do_not_return_with_padding():
    params = draw([CenterCrop(40), CenterCrop((90, 120))])
    size = np.array([HEIGHT]), np.array([WIDTH])
    everything = np.array([(0, 0), (WIDTH, 0), (WIDTH, HEIGHT), (0, HEIGHT)])
    mask = transform_segments(params, ONE, *size, polygons=[[everything]])
    assert mask_boxes(mask).tolist() == [[40, 25, 80, 65]]
    full = encode_runs(np.ones((HEIGHT, WIDTH)))
    np.testing.assert_array_equal(transform_segments(params, ONE, *size, runs=[full]), mask)


def test_an_image_of_padding_shows_no_object():
    params = draw([CenterCrop(40), RandomResizedCrop(10, scale=(0.01, 0.01))], 1)
    params.empty[...] = True
    size = np.array([HEIGHT]), np.array([WIDTH])
    assert not transform_segments(params, ONE, *size, polygons=[[STAR]]).any()
    assert transform_segments(params, ONE[:0], *size, polygons=[]).shape == (0, 10, 10)


@pytest.mark.parametrize("shape", [(5, 4), (5, 1), (1, 4), (1, 1)])
def test_values_are_taken_alike_by_axis_and_by_pixel(shape) -> None:
    rng = np.random.default_rng(0)
    mask = rng.integers(0, 9, (6, 7)).astype(np.uint8)
    by_axis = rng.integers(-1, 6, (shape[0], 1)), rng.integers(-1, 7, (1, shape[1]))
    by_pixel = rng.integers(-1, 6, shape), rng.integers(-1, 7, shape)
    for pixels in (by_axis, by_pixel):
        rows, columns = np.broadcast_arrays(*pixels)
        source = np.stack((rows, columns), axis=-1).tolist()
        expected = [[mask[y, x] if min(y, x) >= 0 else 77 for y, x in line] for line in source]
        assert nearest(mask, pixels, 77).tolist() == expected
