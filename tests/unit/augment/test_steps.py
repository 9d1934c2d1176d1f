"""What each step does to an image: against Pillow, and against sums written out.

Posterize, solarize, autocontrast and equalize have their test in transforms/test_pixels.py.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from helpers.transforms import STEP_CASES

from stoker.augment import steps
from stoker.augment.steps import (
    Blur,
    Posterize,
    Sharpen,
    Solarize,
    Step,
    WeightedSum,
    step_names,
)
from stoker.errors import EngineError

ON = np.array([True])
PIXELS = np.random.default_rng(0).integers(0, 256, (13, 11, 3), np.uint8)


def sharpen(factor, pixels=PIXELS):
    return Sharpen(ON, np.array([factor], np.float32)).run(0, pixels)


def blur(kernel, sigma, pixels=PIXELS):
    return Blur(ON, kernel, np.array([sigma], np.float32)).run(0, pixels)


EVERY = {type(case.step): case.step for case in STEP_CASES.values()}


def test_every_step_has_an_example():
    public = {getattr(steps, name) for name in steps.__all__} - {Step, steps.BatchStep}
    classes = {value for value in public if isinstance(value, type)}
    assert set(EVERY) == classes


@pytest.mark.parametrize("step", EVERY.values(), ids=lambda step: type(step).__name__)
def test_a_step_acts_on_its_samples_and_keeps_its_input(step):
    pixels = np.random.default_rng(0).integers(20, 180, (40, 30, 3), np.uint8)
    before = pixels.copy()
    output = step.run(0, pixels)
    assert output.shape == pixels.shape
    assert output.dtype == np.uint8
    assert (output != before).any()
    np.testing.assert_array_equal(pixels, before)
    assert step.run(1, pixels) is pixels


@pytest.mark.parametrize("step", EVERY.values(), ids=lambda step: type(step).__name__)
def test_a_step_of_some_samples_spreads_to_all(step):
    spread = step.spread(np.array([3, 1, 4]), 5)
    assert spread.where.tolist() == [False, False, False, True, True]
    for i in range(5):
        np.testing.assert_array_equal(spread.run(i, PIXELS), step.run({3: 0, 4: 2}.get(i, 1), PIXELS))


def test_names_include_those_within_a_weighted_sum():
    assert step_names([EVERY[WeightedSum]]) == {"WeightedSum", "Posterize", "Equalize", "Distort"}
    assert step_names([]) == frozenset()


@pytest.mark.parametrize("factor", [0, 0.7, 1.3])
def test_sharpen_is_the_sum_written_out(factor):
    output = sharpen(factor)
    kernel = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]])
    for row, column, c in itertools.product(range(1, 12), range(1, 10), range(3)):
        x = int(PIXELS[row, column, c])
        smooth = round((PIXELS[row - 1 : row + 2, column - 1 : column + 2, c] * kernel).sum() / 13)
        expected = x + math.floor((1 - float(np.float32(factor))) * (smooth - x))
        assert output[row, column, c] == min(max(expected, 0), 255)
    np.testing.assert_array_equal(output[[0, -1]], PIXELS[[0, -1]])
    np.testing.assert_array_equal(output[:, [0, -1]], PIXELS[:, [0, -1]])


def test_sharpen_leaves_images_without_an_interior():
    for shape in ((2, 9, 3), (9, 2, 3)):
        pixels = np.random.default_rng(1).integers(0, 256, shape, np.uint8)
        np.testing.assert_array_equal(sharpen(0, pixels), pixels)


@pytest.mark.parametrize(("kernel", "sigma"), [((3, 3), (1, 1)), ((5, 3), (0.4, 2)), ((1, 7), (9, 1.5))])
def test_blur_is_the_sum_written_out(kernel, sigma):
    half = [taps // 2 for taps in kernel]
    padded = np.pad(PIXELS, ((half[0],) * 2, (half[1],) * 2, (0, 0)), "reflect").astype(float)
    weights = np.array(
        [
            [
                math.exp(-((row - half[0]) ** 2) / (2 * sigma[0] ** 2))
                * math.exp(-((column - half[1]) ** 2) / (2 * sigma[1] ** 2))
                for column in range(kernel[1])
            ]
            for row in range(kernel[0])
        ]
    )
    weights /= weights.sum()
    output = blur(kernel, sigma)
    for row, column in itertools.product(range(13), range(11)):
        window = padded[row : row + kernel[0], column : column + kernel[1]]
        assert np.abs(output[row, column] - np.einsum("hw,hwc->c", weights, window)).max() < 0.501


def test_a_narrow_gaussian_changes_nothing():
    np.testing.assert_array_equal(blur((5, 5), (1e-3, 1e-3)), PIXELS)


def test_a_weighted_sum_rounds_half_up():
    posterize = Posterize(ON, np.array([0], np.uint8))
    solarize = Solarize(ON, np.array([0], np.int16))
    mix = WeightedSum(
        ON, np.array([[0.5, 0.25, 0.25]], np.float32), ((posterize, solarize), (solarize, solarize))
    )
    expected = np.floor(0.75 * PIXELS + 0.25 * 255 + 0.5)
    np.testing.assert_array_equal(mix.run(0, PIXELS), expected)


def test_a_step_without_apply_raises_where_it_applies():
    with pytest.raises(EngineError, match=r"^Step: apply raised NotImplementedError"):
        Step(ON).run(0, PIXELS)
    assert Step(~ON).run(0, PIXELS) is PIXELS
