"""Output: element types and their units, and RandomErasing, whose boxes have these units."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.augment import (
    CenterCrop,
    ColorJitter,
    Normalize,
    RandomErasing,
    ToDtype,
    compile_image,
)
from stoker.augment.reference import execute

WHITE = np.full((40, 60, 3), 255, np.uint8)


def draw(transforms, n=1, dtype=None):
    plan = compile_image([CenterCrop((40, 60)), *transforms], dtype)
    return plan.draw(np.full(n, 40), np.full(n, 60), np.arange(n), 0, 0)


@pytest.mark.parametrize(
    ("transforms", "dtype", "expected"),
    [
        ([RandomErasing(1, value=51)], None, 51),
        ([RandomErasing(1, value=51)], "float32", 0.2),
        ([ToDtype("float32"), RandomErasing(1, value=0.4)], None, 0.4),
        ([ToDtype("float32", scale=False), RandomErasing(1, value=51)], None, 51),
        ([RandomErasing(1, value=51), Normalize((0.5,) * 3, (0.1,) * 3)], None, -3),
        ([Normalize((0.5,) * 3, (0.1,) * 3), RandomErasing(1, value=0.25)], None, 0.25),
        ([Normalize((0.5,) * 3, (0.1,) * 3), RandomErasing(1, value=0.25)], "bfloat16", 0.25),
    ],
)
def test_the_value_is_in_the_units_of_the_pixels_that_it_overwrites(transforms, dtype, expected):
    np.testing.assert_allclose(draw(transforms, dtype=dtype).erase[0].value, expected, rtol=1e-6)


def test_the_box_is_overwritten_after_colour_and_nothing_else():
    params = draw([ColorJitter((0.5, 0.5)), RandomErasing(1, value=(1, 2, 3))], 20)
    assert params.needs() == {"erase"}
    for i, (top, left, height, width) in enumerate(params.erase[0].box.tolist()):
        expected = np.full((40, 60, 3), 128)
        expected[top : top + height, left : left + width] = 1, 2, 3
        np.testing.assert_array_equal(execute(params, i, WHITE, "uint8", "NHWC"), expected)


@pytest.mark.parametrize(
    ("transforms", "dtype", "mean", "deviation"),
    [
        ([RandomErasing(1, value="random")], None, 0, 1),
        ([ToDtype("float32"), RandomErasing(1, value="random")], None, 0, 1),
        ([RandomErasing(1, value="random"), ToDtype("float32")], None, 0, 1 / 255),
        ([Normalize((0.5,) * 3, (0.1,) * 3), RandomErasing(1, value="random")], "float16", 0, 1),
        ([ToDtype("float32"), RandomErasing(1, value="random"), Normalize(0.5, 0.1)], None, -5, 10),
    ],
)
def test_noise_is_in_the_units_of_the_pixels_that_it_overwrites(transforms, dtype, mean, deviation):
    (erase,) = draw(transforms, dtype=dtype).erase
    np.testing.assert_allclose(erase.value, mean, atol=1e-6)
    np.testing.assert_allclose(erase.noise.deviation, deviation, rtol=1e-6)


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
