"""The one resampling: against its definition pixel by pixel, against Pillow, and at its limits."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from stoker.augment import (
    CenterCrop,
    RandomApply,
    RandomChoice,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomRotation,
    Resize,
)
from stoker.augment.plan import compile_image
from stoker.augment.reference import render
from stoker.augment.resampling import SUPPORT, Interpolation, resample

BLACK = (0, 0, 0)


def noise(height, width):
    return np.random.default_rng(height * 100 + width).integers(0, 256, (height, width, 3), np.uint8)


def slope(height, width):
    rows, columns = np.indices((height, width))
    return np.stack((rows, columns, 200 - rows // 2 - columns // 3), axis=-1).astype(np.uint8)


def by_definition(source, matrix, column, row, fill, window):
    """One pixel, by sums over all integers that the filter reaches; slopes by finite differences."""

    def source_point(c, r):
        x, y, w = matrix @ (c + 0.5, r + 0.5, 1)
        return np.array((x, y)) / w

    step = 1e-6
    dc = (source_point(column + step, row) - source_point(column - step, row)) / (2 * step)
    dr = (source_point(column, row + step) - source_point(column, row - step)) / (2 * step)
    support = np.maximum(1, np.hypot(dc, dr))
    at = source_point(column, row)
    first, last = np.floor(at - support - 1).astype(int), np.ceil(at + support + 1).astype(int)
    top, left, bottom, right = window
    value, total = np.zeros(3), 0.0
    for i, j in itertools.product(range(first[0], last[0]), range(first[1], last[1])):
        weight = math.prod(np.maximum(0, 1 - np.abs((i + 0.5, j + 0.5) - at) / support))
        inside = left <= i < right and top <= j < bottom
        value += weight * (source[j, i] if inside else np.array(fill))
        total += weight
    return value / total


@pytest.mark.parametrize("seed", range(6))
def test_every_pixel_follows_the_definition(seed):
    rng = np.random.default_rng(seed)
    source, fill = noise(23, 19), (10, 120, 250)
    matrix = np.eye(3) + rng.normal(0, (0.6 if seed % 2 else 2.5), (3, 3)) * [[1, 1, 4], [1, 1, 4], [0, 0, 0]]
    matrix[2, :2] = rng.uniform(-0.02, 0.04, 2) if seed > 2 else 0
    window = (2, 3, 20, 18)
    output = resample(source, matrix, (20, 21), fill, window)
    for row, column in itertools.product(range(20), range(21)):
        if matrix[2] @ (column + 0.5, row + 0.5, 1) > 0.05:
            expected = by_definition(source, matrix, column, row, fill, window)
            assert np.abs(output[row, column] - expected).max() < 0.501


def test_far_away_and_behind_the_horizon_everything_is_fill():
    assert not resample(np.full((2, 2, 3), 200, np.uint8), -np.eye(3), (2, 2), BLACK).any()
    matrix = np.array([[1.0, 0, 0], [0, 1, 0], [0, -0.1, 1]])
    output = resample(np.full((40, 40, 3), 200, np.uint8), matrix, (40, 40), BLACK)
    assert not output[10:].any()  # from the horizon on
    assert output[:5, :15].all()
    matrix[2] = (0, -0.5, 0.25)  # 0 at the centre of the first row
    assert (resample(np.full((9, 9, 3), 200, np.uint8), matrix, (1, 9), (1, 2, 3)) == (1, 2, 3)).all()
    tiny = resample(np.full((9, 9, 3), 200, np.uint8), np.diag((1e200, 1e200, 1)), (3, 3), (1, 2, 3))
    assert (tiny == (1, 2, 3)).all()


def test_all_geometry_is_one_resampling():
    source = slope(150, 180)
    chain = [
        RandomResizedCrop(60),
        RandomHorizontalFlip(1),
        Resize((50, 40)),
        RandomRotation((0, 0)),
        Resize(20),
    ]
    n = 8
    params = compile_image(chain).draw(np.full(n, 150), np.full(n, 180), np.arange(n), 0, 0)
    plain = compile_image([*chain[:2], Resize((25, 20))]).draw(
        np.full(n, 150), np.full(n, 180), np.arange(n), 0, 0
    )
    for i in range(n):
        output, expected = render(params, i, source).astype(int), render(plain, i, source)
        assert np.abs(output - expected)[2:-2, 2:-2].max() <= 2


NAMES = ["nearest", "bilinear", "bicubic", "lanczos"]


def pixels_of(height, width):
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)


def draw(transforms, n=64, height=90, width=70):
    return compile_image(transforms).draw(np.full(n, height), np.full(n, width), np.arange(n), 0, 0)


def test_samples_may_have_different_interpolations():
    transforms = [Resize((40, 40)), RandomApply([RandomChoice([Resize((30, 30), n) for n in NAMES])], 0.5)]
    params = draw([*transforms, CenterCrop(30)], n=400)
    share = np.bincount(params.interpolation, minlength=4) / 400
    assert share == pytest.approx([1 / 8, 5 / 8, 1 / 8, 1 / 8], abs=0.06)
    assert "interpolation" in compile_image([*transforms, CenterCrop(30)]).needs
    pixels = pixels_of(90, 70)
    for number in (0, 2, 3):
        alone = render(draw([Resize((30, 30), NAMES[number])], n=1), 0, pixels)
        chosen = int(np.argmax(params.interpolation == number))
        np.testing.assert_array_equal(render(params, chosen, pixels), alone)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [37, 150])
def test_a_crop_of_a_resized_image_reads_as_far_as_the_filter_reaches(name, size):
    """As if all of the image had been resized, but for rounding: Pillow takes corners as float32."""
    pixels = pixels_of(90, 61)
    render_all = render(draw([Resize((size, size), name)], 1, 90, 61), 0, pixels)
    params = draw([Resize((size, size), name), CenterCrop(20)], 1, 90, 61)
    margin = round((size - 20) / 2)
    expected = render_all[margin : margin + 20, margin : margin + 20]
    assert np.abs(render(params, 0, pixels).astype(int) - expected).max() <= 2
    crop, region = params.crop[0], params.region[0]
    reach = SUPPORT[Interpolation[name.upper()]] * np.maximum(np.array([90, 61]) / size, 1)
    assert np.array_equal(crop[:2], np.floor(region[:2] - reach))
    assert np.array_equal(crop[:2] + crop[2:], np.ceil(region[2:] + reach))
