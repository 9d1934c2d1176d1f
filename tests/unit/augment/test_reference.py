"""The reference against Pillow used step by step, and against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from stoker.augment import (
    CenterCrop,
    RandomResizedCrop,
    Resize,
    compile_image,
)
from stoker.augment.reference import execute
from stoker.augment.steps import convert


def noise(height, width):
    rng = np.random.default_rng(height * 1000 + width)
    return rng.integers(0, 256, (height, width, 3), np.uint8)


def run(transforms, pixels, **form):
    plan = compile_image(transforms)
    params = plan.draw(*(np.array([n]) for n in pixels.shape[:2]), np.array([0]), 0, 0)
    form = {"dtype": plan.dtype, "layout": "NHWC", **form}
    return execute(params, 0, pixels, **form)


def pillow(pixels):
    return Image.fromarray(pixels)


BILINEAR = Image.Resampling.BILINEAR


@pytest.mark.parametrize(("height", "width"), [(90, 70), (70, 90), (600, 401), (33, 200)])
def test_resize_then_center_crop_is_what_pillow_does_in_two_steps(height, width):
    pixels = noise(height, width)
    resized = (32 * height // width, 32) if height > width else (32, 32 * width // height)
    top, left = round((resized[0] - 28) / 2), round((resized[1] - 28) / 2)
    whole = pillow(pixels).resize(resized[::-1], BILINEAR)
    expected = np.array(whole.crop((left, top, left + 28, top + 28)))
    difference = run([Resize(32), CenterCrop(28)], pixels).astype(int) - expected
    assert np.abs(difference).max() <= 1  # Pillow takes the region's corners as float32


@pytest.mark.parametrize("then", [[], [Resize(16)]])
def test_a_crop_of_padding_is_padding(then):
    pixels = np.full((1, 1, 3), 255, np.uint8)
    plan = compile_image([CenterCrop(9), RandomResizedCrop(16, scale=(0.05, 0.1)), *then])
    params = plan.draw(np.ones(64), np.ones(64), np.arange(64), 0, 0)
    images = [execute(params, i, pixels, "uint8") for i in range(64)]
    assert 0 < sum(image.any() for image in images) < 32  # the centre is one in 81


def test_layouts_hold_the_same_values():
    pixels = noise(4, 6)
    nhwc = run([CenterCrop((4, 6))], pixels)
    nchw = run([CenterCrop((4, 6))], pixels, layout="NCHW")
    padded = run([CenterCrop((4, 6))], pixels, layout="NHWC4")
    np.testing.assert_array_equal(nchw, nhwc.transpose(2, 0, 1))
    assert nchw.flags.c_contiguous
    assert padded.shape == (4, 6, 4)
    np.testing.assert_array_equal(padded[..., :3], nhwc)
    assert not padded[..., 3].any()


def test_uint8_is_rounded_half_away_from_zero_and_clipped():
    values = np.array([-300.0, -0.5, 0.49, 0.5, 1.5, 2.5, 254.5, 255.4, 1e9])
    assert convert(values, "uint8").tolist() == [0, 0, 0, 1, 2, 3, 255, 255, 255]


def test_bfloat16_is_rounded_to_nearest_even():
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(0).normal(size=10_000) * 10.0 ** np.arange(-5, 5).repeat(1000)
    ties = np.array([0x3F808000, 0x3F818000, 0xBF808000, 0x3F808001, 0x7F7FFFFF], np.uint32).view(np.float32)
    values = np.concatenate((values, ties, [0.0, -0.0, np.inf]))
    expected = torch.from_numpy(values.astype(np.float32)).bfloat16().view(torch.int16).numpy()
    np.testing.assert_array_equal(convert(values, "bfloat16"), expected.view(np.uint16))
