"""GaussianBlur and RandomAdjustSharpness: what they draw. Their pixels are tested in test_steps.py."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.augment import CenterCrop, ColorJitter, GaussianBlur, RandomAdjustSharpness, compile_image
from stoker.augment.reference import execute
from stoker.augment.steps import Affine, Blur, Sharpen
from stoker.errors import ConfigError

KEEP = CenterCrop(20)
PIXELS = np.random.default_rng(0).integers(0, 256, (20, 20, 3), np.uint8)


def draw(*transforms, n=1):
    return compile_image([KEEP, *transforms]).draw(np.full(n, 20), np.full(n, 20), np.arange(n), 0, 0)


def test_blur_applies_to_all_samples_with_one_sigma_for_both_axes():
    (step,) = draw(GaussianBlur((3, 7), (0.5, 3)), n=100).steps
    assert step.where.all()
    assert step.kernel_size == (7, 3)  # torchvision's argument is width, height
    assert step.sigma.dtype == np.float32
    assert ((step.sigma >= 0.5) & (step.sigma < 3)).all()
    np.testing.assert_array_equal(step.sigma[:, 0], step.sigma[:, 1])
    assert len(np.unique(step.sigma)) > 90


def test_one_sigma_is_a_range_of_one_value():
    assert GaussianBlur(3, 2) == GaussianBlur((3, 3), (2, 2))
    assert (draw(GaussianBlur(3, 2), n=5).steps[0].sigma == 2).all()


def test_sharpness_applies_with_its_probability_and_factor():
    (step,) = draw(RandomAdjustSharpness(1.5, 0.3), n=4000).steps
    assert abs(step.where.mean() - 0.3) < 0.03
    assert (step.factor == 1.5).all()


def test_filters_act_on_the_colours_before_them():
    params = draw(ColorJitter((2, 2)), RandomAdjustSharpness(2, 1), GaussianBlur(3, 1))
    assert params.needs() == {"Affine", "Sharpen", "Blur"}
    pixels = np.minimum(PIXELS.astype(int) * 2, 255).astype(np.uint8)
    for step in (Sharpen(np.array([True]), np.array([2], np.float32)), params.steps[-1]):
        pixels = step.run(0, pixels)
    np.testing.assert_array_equal(execute(params, 0, PIXELS, "uint8", "NHWC"), pixels)
    assert [type(step) for step in params.steps] == [Affine, Sharpen, Affine, Blur]


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: GaussianBlur(4), "kernel_size"),
        (lambda: GaussianBlur((3, 0)), "kernel_size"),
        (lambda: GaussianBlur((3, 3, 3)), "kernel_size"),
        (lambda: GaussianBlur(3, 0), "sigma"),
        (lambda: GaussianBlur(3, (2, 1)), "sigma"),
        (lambda: RandomAdjustSharpness(-1), "sharpness_factor"),
        (lambda: RandomAdjustSharpness(1, 1.1), "p"),
    ],
)
def test_a_bad_argument_is_named(make, name):
    with pytest.raises(ConfigError, match=rf"\w+: {name} must be .*; found "):
        make()
