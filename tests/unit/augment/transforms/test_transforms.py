"""Each transform alone: its arguments, and its distribution against torchvision's, restated as a plain loop.

torchvision's documented behaviour (transforms.v2, 0.26) is restated here one image at a time, with
Python's own random numbers; distributions are compared by a two-sample Kolmogorov-Smirnov test.
"""

from __future__ import annotations

import math
import random
from itertools import product

import numpy as np
import pytest
from helpers.transforms.distributions import assert_same_distribution

from stoker.augment import (
    CenterCrop,
    Normalize,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
    ToDtype,
    Transform,
    compile_image,
)
from stoker.augment.state import TransformState
from stoker.errors import ConfigError

SIZES = [(1, 1), (1, 7), (7, 1), (300, 500), (500, 300), (333, 500), (257, 256), (255, 256), (4000, 31)]


def draw(transforms, height, width, samples, seed=0, epoch=0):
    return compile_image(transforms).draw(height, width, samples, seed, epoch)


def draw_same(transforms, height, width, n, seed=0):
    return draw(transforms, np.full(n, height), np.full(n, width), np.arange(n), seed)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Resize(0), "size"),
        (lambda: Resize(True), "size"),
        (lambda: Resize(2.5), "size"),
        (lambda: Resize(()), "size"),
        (lambda: Resize(None), "max_size"),
        (lambda: Resize(2**31), "size"),
        (lambda: Resize((224, 0)), "size"),
        (lambda: Resize("224"), "size"),
        (lambda: Resize(256, max_size=255), "max_size"),
        (lambda: Resize((224, 224), max_size=300), "max_size"),
        (lambda: CenterCrop(-1), "size"),
        (lambda: CenterCrop(2**31), "size"),
        (lambda: CenterCrop(None), "size"),
        (lambda: RandomResizedCrop(224, scale=(0.5, 0.1)), "scale"),
        (lambda: RandomResizedCrop(224, scale=(-0.1, 1)), "scale"),
        (lambda: RandomResizedCrop(224, scale=0.5), "scale"),
        (lambda: RandomResizedCrop(224, ratio=(1, float("inf"))), "ratio"),
        (lambda: RandomResizedCrop(224, ratio=(float("nan"), 1)), "ratio"),
        (lambda: RandomHorizontalFlip(1.1), "p"),
        (lambda: RandomHorizontalFlip(float("nan")), "p"),
        (lambda: RandomVerticalFlip("0.5"), "p"),
        (lambda: Normalize(mean="0.5"), "mean"),
        (lambda: Normalize(mean=()), "mean"),
        (lambda: Normalize(std=(0.2, 0, 0.2)), "std"),
        (lambda: ToDtype("int8"), "dtype"),
        (lambda: ToDtype("float32", scale=1), "scale"),
    ],
)
def test_a_bad_argument_is_named_with_its_rule_and_value(make, name):
    with pytest.raises(ConfigError, match=rf"\w+: {name} must be .*, found "):
        make()


def test_arguments_have_one_form_and_descriptions_compare_by_value():
    assert CenterCrop(224) == CenterCrop([224, 224]) == CenterCrop((np.int64(224), 224))
    assert Resize(256).size == 256
    assert Normalize(mean=[0, 0, 0]).mean == (0.0, 0.0, 0.0)
    assert hash(RandomResizedCrop(8)) == hash(RandomResizedCrop((8, 8)))
    assert repr(RandomHorizontalFlip(0.25)) == "RandomHorizontalFlip(p=0.25)"


class OtherDType:
    """A stand-in for an element type of PyTorch, which is known by its text alone."""

    def __str__(self):
        return "torch.bfloat16"


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        ("float16", "float16"),
        (np.float32, "float32"),
        (np.dtype("uint8"), "uint8"),
        (OtherDType(), "bfloat16"),
    ],
)
def test_element_types_by_name_and_by_type(dtype, name):
    assert ToDtype(dtype).dtype == name


def test_the_base_class_decides_nothing():
    with pytest.raises(NotImplementedError):
        Transform().params(TransformState.of(np.array([1]), np.array([1])), np.zeros((1, 0)))


def torchvision_resized(height, width, size, max_size):
    short, long = min(height, width), max(height, width)
    if size is None:
        new_short, new_long = int(max_size * short / long), max_size
    else:
        new_short, new_long = size, int(size * long / short)
    if size and max_size is not None and new_long > max_size:
        new_short, new_long = int(max_size * new_short / new_long), max_size
    new_short = max(new_short, 1)
    return (new_short, new_long) if height <= width else (new_long, new_short)


@pytest.mark.parametrize(
    ("size", "max_size"),
    [*product([1, 32, 224], [None, 225, 330, 1000]), (None, 1), (None, 224), (None, 1000)],
)
def test_resize_by_the_shorter_side_or_the_longer_one(size, max_size):
    state = TransformState.of(*np.array(SIZES).T)
    Resize(size, max_size=max_size).params(state, np.zeros((len(SIZES), 0)))
    assert state.size.T.tolist() == [list(torchvision_resized(h, w, size, max_size)) for h, w in SIZES]
    for h, w in SIZES:
        assert Resize(size, max_size=max_size).output_size((h, w)) == torchvision_resized(
            h, w, size, max_size
        )


def test_resize_to_a_size_takes_the_whole_image():
    params = draw([Resize((20, 30))], *np.array(SIZES).T, np.arange(len(SIZES)))
    assert params.size == (20, 30)
    np.testing.assert_array_equal(params.region, [(0, 0, h, w) for h, w in SIZES])
    np.testing.assert_array_equal(params.crop, [(0, 0, h, w) for h, w in SIZES])
    np.testing.assert_array_equal(params.dest, [(0, 0, 20, 30)] * len(SIZES))


def torchvision_center_crop(height, width, crop_height, crop_width):
    """(top, left) of the crop in the source; negative where it is padded."""
    top, left = 0, 0
    if crop_height > height:
        top = (crop_height - height) // 2
    if crop_width > width:
        left = (crop_width - width) // 2
    padded_height, padded_width = max(height, crop_height), max(width, crop_width)
    crop_top = round((padded_height - crop_height) / 2.0)
    crop_left = round((padded_width - crop_width) / 2.0)
    return crop_top - top, crop_left - left


@pytest.mark.parametrize("crop", [(1, 1), (7, 4), (8, 8), (9, 256), (300, 301)])
def test_center_crop_rounds_and_pads_as_torchvision_does(crop):
    params = draw([CenterCrop(crop)], *np.array(SIZES).T, np.arange(len(SIZES)))
    for (height, width), region, dest in zip(SIZES, params.region, params.dest, strict=True):
        top, left = torchvision_center_crop(height, width, *crop)
        inside = (max(top, 0), max(left, 0), min(top + crop[0], height), min(left + crop[1], width))
        assert region.tolist() == list(inside)
        expected = (inside[0] - top, inside[1] - left, inside[2] - inside[0], inside[3] - inside[1])
        assert dest.tolist() == list(expected)
    assert params.fill.tolist() == [0, 0, 0]


def torchvision_box(height, width, scale, ratio, rng):
    area = height * width
    log_ratio = (math.log(ratio[0]), math.log(ratio[1]))
    for _ in range(10):
        target_area = area * rng.uniform(*scale)
        aspect_ratio = math.exp(rng.uniform(*log_ratio))
        w = round(math.sqrt(target_area * aspect_ratio))
        h = round(math.sqrt(target_area / aspect_ratio))
        if 0 < w <= width and 0 < h <= height:
            return rng.randint(0, height - h), rng.randint(0, width - w), h, w
    return torchvision_fallback(height, width, ratio)


def torchvision_fallback(height, width, ratio):
    in_ratio = width / height
    w, h = width, height
    if in_ratio < min(ratio):
        h = round(w / min(ratio))
    elif in_ratio > max(ratio):
        w = round(h * max(ratio))
    return (height - h) // 2, (width - w) // 2, h, w


@pytest.mark.parametrize(
    ("height", "width", "scale", "ratio"),
    [
        (375, 500, (0.08, 1.0), (3 / 4, 4 / 3)),
        (480, 360, (0.5, 0.9), (3 / 4, 4 / 3)),
        (100, 1000, (0.08, 1.0), (3 / 4, 4 / 3)),  # most attempts fail
        (64, 48, (0.2, 0.2), (0.25, 6.0)),
    ],
)
def test_random_resized_crop_follows_torchvisions_law(height, width, scale, ratio):
    n = 20_000
    crop = draw_same([RandomResizedCrop(224, scale, ratio)], height, width, n).crop
    rng = random.Random(0)
    expected = np.array([torchvision_box(height, width, scale, ratio, rng) for _ in range(n)])
    for axis in range(4):
        assert_same_distribution(crop[:, axis], expected[:, axis])
    assert_same_distribution(crop[:, 2] * crop[:, 3], expected[:, 2] * expected[:, 3])
    assert_same_distribution(crop[:, 3] / crop[:, 2], expected[:, 3] / expected[:, 2])
    share_top = crop[:, 0] / np.maximum(height - crop[:, 2], 1)
    expected_top = expected[:, 0] / np.maximum(height - expected[:, 2], 1)
    assert_same_distribution(share_top, expected_top)


@pytest.mark.parametrize(("height", "width"), [(11, 1000), (1000, 11), (1, 500), (500, 1)])
def test_random_resized_crop_falls_back_to_the_centre(height, width):
    transform = RandomResizedCrop(8, scale=(0.9, 1.0))  # never fits into so long an image
    params = draw_same([transform], height, width, 50)
    assert set(map(tuple, params.crop.tolist())) == {torchvision_fallback(height, width, transform.ratio)}


def test_random_resized_crop_of_an_image_within_ratio_falls_back_to_the_whole():
    transform = RandomResizedCrop(8, scale=(1.5, 2.0))  # larger than the image: never fits
    params = draw_same([transform], 100, 110, 5)
    np.testing.assert_array_equal(params.crop, [(0, 0, 100, 110)] * 5)


def test_random_resized_crop_uses_the_first_attempt_that_fits():
    state = TransformState.of(np.array([100]), np.array([100]))
    u = np.full((1, RandomResizedCrop.draws), 0.999)
    u[0, :10] = 1 - 1e-9  # area: all of the image, which does not fit at this ratio ...
    u[0, 2] = 0.0  # ... but at the third attempt
    u[0, 20:] = 0.0  # top left
    RandomResizedCrop(7).params(state, u)
    width = round(math.sqrt(800 * math.exp(math.log(3 / 4) + 0.999 * math.log(16 / 9))))
    height = round(math.sqrt(800 / math.exp(math.log(3 / 4) + 0.999 * math.log(16 / 9))))
    assert state.geometry.content_start.ravel().tolist() == [0, 0]
    assert state.geometry.content_stop.ravel().tolist() == [height, width]


def test_random_resized_crop_of_one_pixel():
    params = draw_same([RandomResizedCrop(4)], 1, 1, 20)
    np.testing.assert_array_equal(params.crop, [(0, 0, 1, 1)] * 20)


@pytest.mark.parametrize(("transform", "column"), [(RandomHorizontalFlip, 0), (RandomVerticalFlip, 1)])
@pytest.mark.parametrize("p", [0.0, 0.2, 0.5, 1.0])
def test_flips_with_their_probability_on_their_axis(transform, column, p):
    n = 10_000
    flip = draw_same([CenterCrop(4), transform(p)], 9, 9, n).flip
    assert not flip[:, 1 - column].any()
    assert abs(flip[:, column].mean() - p) <= 6 * math.sqrt(p * (1 - p) / n)
