"""Pad and RandomCrop: pixels against NumPy's padding, locations against torchvision's distribution."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.augment import CenterCrop, Pad, RandomCrop, RandomHorizontalFlip, Resize, compile_image
from stoker.augment.reference import render
from stoker.errors import ConfigError

PIXELS = np.random.default_rng(0).integers(1, 256, (20, 30, 3), np.uint8)


def draw(transforms, n=1, height=20, width=30):
    return compile_image(transforms).draw(np.full(n, height), np.full(n, width), np.arange(n), 0, 0)


def padded(pixels, left, top, right, bottom, fill=0):
    return np.pad(pixels, ((top, bottom), (left, right), (0, 0)), constant_values=fill)


@pytest.mark.parametrize(
    ("padding", "sides"),
    [(3, (3, 3, 3, 3)), ((2, 5), (2, 5, 2, 5)), ((1, 2, 3, 4), (1, 2, 3, 4)), (0, (0,) * 4)],
)
def test_pad_adds_pixels_on_each_side(padding, sides):
    expected = padded(PIXELS, *sides, fill=7)
    params = draw([Resize((20, 30)), Pad(padding, fill=7)])
    assert params.size == expected.shape[:2]
    np.testing.assert_array_equal(render(params, 0, PIXELS), expected)


def test_all_padding_has_one_colour():
    params = draw([Pad(1, fill=(1, 2, 3)), CenterCrop(40), RandomCrop(50, 5, fill=(1, 2, 3))])
    image = render(params, 0, PIXELS)
    assert image[0, 0].tolist() == [1, 2, 3]
    with pytest.raises(ConfigError, match=r"fill \(0, 0, 0\) after a fill \(9, 9, 9\)\nUse one fill"):
        compile_image([Pad(1, fill=9), RandomCrop(8, padding=1)])


def test_random_crop_takes_every_location_alike():
    n = 20_000
    region = draw([RandomCrop((15, 28))], n).region
    assert (region[:, 2:] - region[:, :2] == (15, 28)).all()
    origins, counts = np.unique(region[:, :2], axis=0, return_counts=True)
    assert len(origins) == 6 * 3
    expected = n / 18
    assert ((counts - expected) ** 2 / expected).sum() < 45  # chi-square, 17 degrees of freedom, p = 2e-4


def test_random_crop_with_padding_cuts_the_padded_image():
    pixels = padded(PIXELS, 4, 4, 4, 4)
    params = draw([RandomCrop((20, 30), padding=4), RandomHorizontalFlip(0)], 200)
    corners = set()
    for i in range(200):
        image = render(params, i, PIXELS)
        top, left = 4 + params.region[i, :2].astype(int) - params.dest[i, :2]
        corners.add((top, left))
        np.testing.assert_array_equal(image, pixels[top : top + 20, left : left + 30])
    assert {top for top, _ in corners} == {left for _, left in corners} == set(range(9))


def test_an_image_that_is_too_small_is_refused_or_padded_as_needed():
    with pytest.raises(ConfigError, match=r"size \(25, 25\) is larger than an image of 20 x 30"):
        draw([RandomCrop(25)])
    with pytest.raises(ConfigError, match=r"size \(25, 25\) is larger than an image of 24 x 24"):
        compile_image([Resize((24, 24)), RandomCrop(25)])
    params = draw([RandomCrop(25, pad_if_needed=True)], 500)
    # Five rows are missing, so five are added above and below: 30 rows for a crop of 25.
    top = params.region[:, 0].astype(int) - params.dest[:, 0] + 5
    assert set(top.tolist()) == set(range(6))
    left = params.region[:, 1].astype(int) - params.dest[:, 1]
    assert set(left.tolist()) == set(range(6))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Pad(-1), "padding"),
        (lambda: Pad((1, 2, 3)), "padding"),
        (lambda: Pad(1.5), "padding"),
        (lambda: Pad(1, fill=256), "fill"),
        (lambda: Pad(1, fill=(1, 2)), "fill"),
        (lambda: RandomCrop(0), "size"),
        (lambda: RandomCrop(8, padding="4"), "padding"),
        (lambda: RandomCrop(8, pad_if_needed=1), "pad_if_needed"),
        (lambda: RandomCrop(8, fill=None), "fill"),
    ],
)
def test_a_bad_argument_is_named(make, name):
    with pytest.raises(ConfigError, match=rf"\w+: {name} must be .*; found "):
        make()
