"""Plans: which lists compile, what they draw, and how transforms compose into one resampling."""

from __future__ import annotations

import json

import numpy as np
import pytest

from stoker.augment import (
    CenterCrop,
    Normalize,
    RandomAffine,
    RandomHorizontalFlip,
    RandomPerspective,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
    Resize,
    ToDtype,
    compile_image,
)
from stoker.errors import ConfigError

TRAIN = [RandomResizedCrop(224), RandomHorizontalFlip(), Normalize()]


def draw(transforms, sizes, samples=None, seed=0, epoch=0, dtype=None):
    height, width = np.array(sizes, np.int32).T
    samples = np.arange(len(sizes)) if samples is None else samples
    return compile_image(transforms, dtype).draw(height, width, samples, seed, epoch)


def arrays(params):
    return [params.crop, params.region, params.dest, params.flip, params.color]


@pytest.mark.parametrize("transforms", [[], [Resize(256)], [RandomHorizontalFlip(), Normalize()]])
def test_images_of_different_sizes_are_refused_with_the_remedy(transforms):
    with pytest.raises(ConfigError, match=r"Add CenterCrop\(size\), or Resize\(\(height, width\)\)"):
        compile_image(transforms)


@pytest.mark.parametrize(
    ("transforms", "needs"),
    [
        ([RandomAffine(9)], {"warp"}),
        ([RandomRotation(9, "nearest")], {"warp", "nearest"}),
        ([RandomPerspective(), RandomRotation(9)], {"warp", "perspective"}),
        ([RandomPerspective(interpolation="nearest")], {"warp", "perspective", "nearest"}),
    ],
)
def test_needs_name_what_warps_may_do(transforms, needs):
    assert compile_image([CenterCrop(20), *transforms]).needs == needs


@pytest.mark.parametrize(
    ("transforms", "size"),
    [
        ([Resize(256), CenterCrop((200, 100))], (200, 100)),
        ([CenterCrop((200, 100)), Resize(50)], (100, 50)),
        ([Resize((20, 40)), RandomVerticalFlip()], (20, 40)),
        ([RandomResizedCrop(8), Resize((3, 4)), Normalize()], (3, 4)),
    ],
)
def test_the_last_geometry_decides_the_size_of_the_output(transforms, size):
    plan = compile_image(transforms)
    assert plan.size == size
    assert plan.draw(np.array([90]), np.array([80]), np.array([0]), 0, 0).size == size


def test_geometry_after_normalize_is_refused():
    with pytest.raises(ConfigError, match="CenterCrop stands after Normalize\nMove CenterCrop before it"):
        compile_image([Resize(8), Normalize(), CenterCrop(8)])


def test_items_that_are_no_transforms_are_refused():
    with pytest.raises(ConfigError, match="found 'CenterCrop'"):
        compile_image(["CenterCrop"])


def test_a_plan_knows_whether_it_is_random():
    assert compile_image(TRAIN).random
    assert not compile_image([Resize(8), CenterCrop(8), Normalize()]).random


def test_a_plan_is_described_in_json():
    described = json.loads(json.dumps(compile_image(TRAIN, "bfloat16").to_json()))
    assert described["size"] == [224, 224]
    assert described["dtype"] == "bfloat16"
    assert described["transforms"][1] == {"name": "RandomHorizontalFlip", "p": 0.5}


@pytest.mark.parametrize(
    ("transforms", "dtype", "expected", "white"),
    [
        ([], None, "uint8", 255),
        ([], "float32", "float32", 1),
        ([], "bfloat16", "bfloat16", 1),
        ([ToDtype("float16")], None, "float16", 1),
        ([ToDtype("float32", scale=False)], None, "float32", 255),
        ([ToDtype("float32", scale=False)], "float16", "float16", 255),
        ([ToDtype("uint8")], None, "uint8", 255),
        ([ToDtype("uint8")], "float32", "float32", 1),
        ([ToDtype("float32"), ToDtype("float16")], None, "float16", 1),
        ([Normalize((0.5,) * 3, (0.25,) * 3)], None, "float32", 2),
        ([ToDtype("float16"), Normalize((0.5,) * 3, (0.25,) * 3)], None, "float16", 2),
        ([ToDtype("float32", scale=False), Normalize((127,) * 3, (2,) * 3)], None, "float32", 64),
        ([Normalize((0.5,) * 3, (0.25,) * 3), ToDtype("bfloat16")], None, "bfloat16", 2),
    ],
)
def test_white_has_the_value_of_the_element_type_and_its_units(transforms, dtype, expected, white):
    transforms = [CenterCrop(4), *transforms]
    assert compile_image(transforms, dtype).dtype == expected
    color = draw(transforms, [(4, 4)] * 2, dtype=dtype).color
    assert color.dtype == np.float32
    np.testing.assert_allclose(color[1, :, :3] @ [255, 255, 255] + color[1, :, 3], white, rtol=1e-6)


@pytest.mark.parametrize(
    "transforms", [[Resize((1, 40000))], [Resize((40000, 1)), RandomRotation(9), CenterCrop((8, 1))]]
)
def test_images_that_are_too_large_for_engines_are_refused_at_once(transforms):
    with pytest.raises(ConfigError, match=r"40000.*; a side has 32768 at most"):
        compile_image(transforms)
    compile_image([Resize((40000, 40000)), CenterCrop(8)])  # nothing is of that size there


@pytest.mark.parametrize("before", [[], [ToDtype("float16")]])
def test_a_mean_of_levels_is_refused_where_pixels_are_shares(before):
    with pytest.raises(
        ConfigError, match=r"(?s)^Normalize: mean .* in 0..1, found \(123.0, 117.0, 104.0\).*255"
    ):
        compile_image([CenterCrop(4), *before, Normalize((123, 117, 104), (58, 57, 57))])
    compile_image([CenterCrop(4), *before, Normalize((1, 1, 1), (58, 57, 57))])


@pytest.mark.parametrize("dtype", [None, "uint8"])
def test_normalised_pixels_do_not_fit_uint8(dtype):
    last = [ToDtype("uint8")] if dtype is None else []
    with pytest.raises(ConfigError, match="uint8 output after a conversion to float32"):
        compile_image([CenterCrop(4), Normalize(), *last], dtype)


def test_parameters_have_the_documented_shapes_and_types():
    params = draw(TRAIN, [(300, 400)] * 5)
    forms = [(a.shape, a.dtype) for a in arrays(params)]
    assert forms == [
        ((5, 4), np.int32),
        ((5, 4), np.float64),
        ((5, 4), np.int32),
        ((5, 2), np.bool_),
        ((5, 3, 4), np.float32),
    ]
    assert all(a.flags.c_contiguous for a in arrays(params))
    assert (params.fill.shape, params.fill.dtype) == ((3,), np.uint8)
    assert len(params) == 5


def test_a_batch_without_samples_has_empty_arrays():
    params = draw(TRAIN, np.empty((0, 2)))
    assert [a.shape for a in arrays(params)] == [(0, 4), (0, 4), (0, 4), (0, 2), (0, 3, 4)]


def test_seed_epoch_and_sample_each_change_the_draw():
    sizes = [(300, 400)] * 64
    base = draw(TRAIN, sizes)
    for other in (
        draw(TRAIN, sizes, seed=1),
        draw(TRAIN, sizes, epoch=1),
        draw(TRAIN, sizes, np.arange(64) + 64),
    ):
        assert (base.crop != other.crop).any(axis=1).sum() > 60
        assert 10 < (base.flip[:, 0] != other.flip[:, 0]).sum() < 54


def test_equal_transforms_draw_independently():
    params = draw([CenterCrop(4), RandomHorizontalFlip(), RandomHorizontalFlip()], [(8, 8)] * 1000)
    assert 400 < params.flip[:, 0].sum() < 600  # flipped by one of the two; never, if they drew alike


def test_a_crop_of_a_resized_image_is_a_region_of_the_source():
    params = draw([Resize(256), CenterCrop(224)], [(512, 1024)])
    np.testing.assert_allclose(params.region[0], (32, 288, 480, 736))
    # the filter reaches one output pixel, two source pixels, to each side
    assert params.crop[0].tolist() == [30, 286, 452, 452]


def test_a_crop_after_a_crop_does_not_restore_pixels():
    params = draw([CenterCrop(10), CenterCrop(20)], [(100, 100)])
    assert params.region[0].tolist() == [45, 45, 55, 55]
    assert params.dest[0].tolist() == [5, 5, 10, 10]


def test_a_crop_after_a_flip_takes_the_other_side():
    params = draw([RandomHorizontalFlip(1), RandomVerticalFlip(1), CenterCrop((3, 4))], [(8, 9)])
    # CenterCrop rounds 2.5 to 2, twice: rows 2..5 and columns 2..6 of the mirrored image
    assert params.region[0].tolist() == [3, 3, 6, 7]
    assert params.flip[0].tolist() == [True, True]


def test_padding_is_scaled_with_the_image():
    params = draw([CenterCrop(100), Resize((50, 200))], [(60, 40)])
    assert params.dest[0].tolist() == [10, 60, 30, 80]
    assert params.region[0].tolist() == [0, 0, 60, 40]
    assert params.crop[0].tolist() == [0, 0, 60, 40]
    params = draw([CenterCrop(50), Resize((33, 33))], [(30, 30)])
    assert params.dest[0].tolist() == [7, 7, 19, 19]  # of 6.6 to 26.4


def test_a_random_resized_crop_of_a_resized_image_takes_its_whole_pixels():
    sizes = [(600, 900)] * 50
    params = draw([Resize((60, 90)), RandomResizedCrop(32)], sizes)
    np.testing.assert_allclose(params.region % 10, 0, atol=1e-9)  # whole pixels of the resized image
    np.testing.assert_array_equal(params.crop[:, :2], params.region[:, :2])
    np.testing.assert_array_equal(params.crop[:, 2:], params.region[:, 2:] - params.region[:, :2])
