"""Colour transforms against torchvision's formulas applied one image, one operation at a time."""

from __future__ import annotations

import colorsys
import itertools

import numpy as np
import pytest

from stoker.augment import (
    CenterCrop,
    ColorJitter,
    Grayscale,
    RandomChannelPermutation,
    RandomGrayscale,
    RandomInvert,
    RandomPhotometricDistort,
    compile_image,
)
from stoker.augment.reference import execute
from stoker.augment.state import TransformState
from stoker.augment.transforms.color import hue_matrix
from stoker.errors import ConfigError

PIXELS = np.random.default_rng(0).integers(90, 160, (6, 7, 3), np.uint8)  # no operation leaves 0..255
KEEP = CenterCrop((6, 7))


# torchvision.transforms.v2.functional on float images, without its clamping


def grey(image):
    return image @ [0.2989, 0.587, 0.114]


def adjust_brightness(image, factor):
    return image * factor


def adjust_contrast(image, factor):
    return factor * image + (1 - factor) * grey(image).mean()


def adjust_saturation(image, factor):
    return factor * image + (1 - factor) * grey(image)[..., None]


def rotate_hue(image, turn):
    """Rodrigues' rotation about the grey axis: ours, where torchvision's is that of HSV."""
    axis = np.ones(3) / np.sqrt(3)
    c, s = np.cos(2 * np.pi * turn), np.sin(2 * np.pi * turn)
    return image * c + np.cross(axis, image) * s + (image @ axis)[..., None] * axis * (1 - c)


ADJUST = (adjust_brightness, adjust_contrast, adjust_saturation, rotate_hue)


def decide(transform, u):
    """The composed map of one transform given its random numbers, applied to PIXELS."""
    n = len(u)
    state = TransformState.of(np.full(n, 6), np.full(n, 7))
    transform.params(state, np.asarray(u, float))
    mean = PIXELS.mean(axis=(0, 1))
    return [PIXELS @ m[:, :3].T + m[:, 3] + m[:, 4:] @ mean for m in state.color.matrix]


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_color_jitter_in_every_order(order):
    jitter = ColorJitter(0.4, 0.5, 0.6, 0.1)
    rank = np.argsort(order) / 4  # the operation with the smallest number comes first
    values = [0.9, 0.2, 0.7, 0.8]
    ranges = [(0.6, 1.4), (0.5, 1.5), (0.4, 1.6), (-0.1, 0.1)]
    factors = [low + (high - low) * v for (low, high), v in zip(ranges, values, strict=True)]
    expected = PIXELS.astype(float)
    for operation in order:
        expected = ADJUST[operation](expected, factors[operation])
    np.testing.assert_allclose(decide(jitter, [[*rank, *values]])[0], expected, atol=1e-9)


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("applied", list(itertools.product([True, False], repeat=5)))
def test_photometric_distort_step_by_step(early, applied):
    values = [0.1, 0.8, 0.3, 0.9]
    u = [*(0.2 if a else 0.7 for a in applied), *values, 0.3 if early else 0.6, 0.5, 0.9, 0.1]
    ranges = [(0.875, 1.125), (0.5, 1.5), (0.5, 1.5), (-0.05, 0.05)]
    steps = [0, 1, 2, 3] if early else [0, 2, 3, 1]
    expected = PIXELS.astype(float)
    for step in steps:
        low, high = ranges[step]
        if applied[step]:
            expected = ADJUST[step](expected, low + (high - low) * values[step])
    if applied[4]:
        expected = expected[..., [2, 0, 1]]
    np.testing.assert_allclose(decide(RandomPhotometricDistort(), [u])[0], expected, atol=1e-9)


def test_grayscale_and_invert_are_torchvisions_formulas():
    yes, no = decide(RandomGrayscale(0.1), [[0.05], [0.5]])
    np.testing.assert_allclose(yes, np.repeat(grey(PIXELS.astype(float))[..., None], 3, axis=-1))
    np.testing.assert_array_equal(no, PIXELS)
    yes, no = decide(RandomInvert(0.1), [[0.05], [0.5]])
    np.testing.assert_array_equal(yes, 255 - PIXELS)
    np.testing.assert_array_equal(no, PIXELS)


def test_hue_differs_from_hsv_at_most_as_documented():
    colours = np.random.default_rng(0).integers(0, 256, (500, 3))
    for turn, share in ((1 / 6, 1 / 3), (0.05, 1 / 7)):
        expected = []
        for rgb in colours:
            h, s, v = colorsys.rgb_to_hsv(*(rgb / 255))
            expected.append(255 * np.array(colorsys.hsv_to_rgb((h + turn) % 1, s, v)))
        ours = (colours @ hue_matrix(np.array([turn]))[0].T).clip(0, 255)
        assert np.abs(ours - expected).max() <= 255 * share + 1


def test_all_orders_of_color_jitter_are_equally_likely():
    u = np.random.default_rng(0).random((24_000, 8))
    u[:, 4:] = [0.9, 0.2, 0.7, 0.8]
    state = TransformState.of(np.full(24_000, 6), np.full(24_000, 7))
    ColorJitter(0.4, 0.5, 0.6, 0.1).params(state, u)
    maps, counts = np.unique(state.color.matrix.reshape(24_000, -1).round(9), axis=0, return_counts=True)
    # All but hue commute: it only matters whether contrast and saturation come before hue.
    assert len(maps) == 4
    np.testing.assert_allclose(np.sort(counts) / 24_000, [1 / 6, 1 / 6, 1 / 3, 1 / 3], atol=0.02)


def test_the_mean_is_that_of_the_output():
    plan = compile_image([KEEP, ColorJitter(contrast=(0.0, 0.0))])
    assert plan.needs == {"mean_matrix"}
    params = plan.draw(np.array([6]), np.array([7]), np.array([0]), 0, 0)
    expected = np.full((6, 7, 3), grey(PIXELS.astype(float)).mean())
    np.testing.assert_allclose(execute(params, 0, PIXELS, "float32", "NHWC"), expected, rtol=1e-6)


def test_grayscale_is_grey_in_three_channels():
    params = compile_image([KEEP, Grayscale(3)]).draw(np.array([6]), np.array([7]), np.zeros(1, int), 0, 0)
    image = execute(params, 0, PIXELS, "uint8", "NHWC")
    assert np.array_equal(image, np.repeat(np.floor(grey(PIXELS)[..., None] + 0.5), 3, axis=2))
    with pytest.raises(ConfigError, match="num_output_channels must be 3, found 1"):
        Grayscale()


def test_all_orders_of_the_channels_are_equally_likely():
    n = 6000
    params = compile_image([KEEP, RandomChannelPermutation()]).draw(
        np.full(n, 6), np.full(n, 7), np.arange(n), 0, 0
    )
    orders, counts = np.unique(params.color[:, :, :3].argmax(axis=2), axis=0, return_counts=True)
    assert sorted(map(tuple, orders)) == list(itertools.permutations(range(3)))
    assert np.abs(counts - n / 6).max() < 5 * np.sqrt(n / 6)
