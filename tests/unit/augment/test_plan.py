"""Plans: which lists compile, what they draw, and how transforms compose into one resampling."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest
from helpers.transforms import CASES, RandomUpset

from stoker import augment
from stoker.augment import (
    CenterCrop,
    Normalize,
    RandomHorizontalFlip,
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


def test_a_plan_is_described_in_json():
    assert compile_image(TRAIN).random
    assert not compile_image([Resize(8), CenterCrop(8), Normalize()]).random
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


def test_a_crop_of_a_resized_image_is_a_region_of_the_source():
    params = draw([Resize(256), CenterCrop(224)], [(512, 1024)])
    np.testing.assert_allclose(params.region[0], (32, 288, 480, 736))
    # the filter reaches one output pixel, two source pixels, to each side
    assert params.crop[0].tolist() == [30, 286, 452, 452]


def test_a_crop_after_a_crop_does_not_restore_pixels():
    params = draw([CenterCrop(10), CenterCrop(20)], [(100, 100)])
    assert params.region[0].tolist() == [45, 45, 55, 55]
    assert params.dest[0].tolist() == [5, 5, 10, 10]


FIXED = CenterCrop(20)
SMALLER = augment.RandomApply([augment.Resize((9, 8))])
ONE_FILL = "after a fill .*\nUse one fill in a list"
REFUSED: list[tuple[list[Any], str]] = [
    ([], r"Add CenterCrop\(size\), or Resize\(\(height, width\)\)"),
    (["CenterCrop"], "found 'CenterCrop'"),
    ([Normalize(), FIXED], "CenterCrop stands after Normalize\nMove CenterCrop before it"),
    ([FIXED, augment.RandomErasing(), augment.ColorJitter(0.5)], "stands after RandomErasing"),
    ([FIXED, Normalize(), ToDtype("uint8")], "uint8 output after a conversion to float32"),
    ([FIXED, Normalize((123, 117, 104))], r"(?s)^Normalize: mean .* in 0..1, found \(123.0, .*255"),
    ([Resize((1, 40000))], "40000.*; a side has 32768 at most"),
    ([Resize((40000, 1)), RandomRotation(9), FIXED], "40000.*; a side has 32768 at most"),
    *(([one, FIXED], "different sizes") for one in (augment.RandAugment(), RandomRotation(9))),
    *(([FIXED, one], "different sizes") for one in (augment.RandomIoUCrop(), augment.RandomZoomOut())),
    *(([FIXED, one], "different sizes") for one in (augment.ScaleJitter(9), augment.RandomResize(8, 9))),
    *(
        ([one], "different sizes")
        for one in (SMALLER, augment.RandomChoice([Resize((9, 8)), Resize((8, 9))]))
    ),
    ([FIXED, RandomRotation(9), augment.RandomIoUCrop(), FIXED], "RandomIoUCrop stands after a warp"),
    ([FIXED, RandomRotation(9), CenterCrop(21)], "pads after a warp\nMove the padding before"),
    ([augment.Pad(1, 7), FIXED, RandomRotation(9, fill=8)], ONE_FILL),
    ([augment.RandomChoice([augment.Pad(1, 1), augment.Pad(1, 2)]), FIXED], ONE_FILL),
    ([augment.Pad(1, 7), FIXED, augment.ElasticTransform(fill=8)], ONE_FILL),
    (
        [FIXED, augment.RandomApply([augment.ObjectCrop(9)]), CenterCrop(9)],
        "warped in another size than the others",
    ),
]


@pytest.mark.parametrize(("transforms", "message"), REFUSED)
def test_a_list_that_makes_no_batch_is_refused_with_the_remedy(transforms, message):
    with pytest.raises(ConfigError, match=message):
        compile_image(transforms)


@pytest.mark.parametrize(
    ("transform", "applied"),
    [
        (RandomHorizontalFlip(0.3), lambda params: params.flip[:, 0]),
        (RandomVerticalFlip(0.3), lambda params: params.flip[:, 1]),
        (augment.RandomErasing(0.3), lambda params: params.erase[0].box[:, 2] > 0),
        (augment.RandomApply([RandomVerticalFlip(1)], 0.3), lambda params: params.flip[:, 1]),
        (augment.RandomSolarize(9, 0.3), lambda params: params.steps[0].where),
    ],
)
def test_a_transform_acts_with_its_probability(transform, applied):
    n = 10_000
    share = applied(draw([CenterCrop(8), transform], [(9, 9)] * n)).mean()
    assert abs(share - 0.3) < 6 * np.sqrt(0.3 * 0.7 / n)


def flattened(value):
    """All values of parameters, in their order; arrays as dtype, shape and bytes."""
    if isinstance(value, np.ndarray):
        return [(value.dtype.str, value.shape, value.tobytes())]
    if is_dataclass(value):
        return [type(value), *(flattened(getattr(value, one.name)) for one in fields(value))]
    return [flattened(one) for one in value] if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("transform", [case.transform for case in CASES], ids=repr)
def test_divided_parameters_are_those_that_each_batch_draws(transform):
    crop = (
        []
        if isinstance(transform, augment.AugMix | augment.ElasticTransform | augment.RandomErasing)
        else [CenterCrop(32)]
    )
    erase = [] if isinstance(transform, augment.RandomErasing) else [augment.RandomErasing(0.5)]
    plan = compile_image([Resize((72, 64)), RandomHorizontalFlip(), transform, *crop, *erase, Normalize()])
    rng = np.random.default_rng(0)
    height, width = rng.integers(50, 120, (2, 24))
    keys = rng.permutation(1000)[:24]

    def drawn(rows):
        return plan.draw(height[rows], width[rows], keys[rows], 3, 5)

    whole = drawn(slice(None))
    assert plan.is_divisible
    for rows in (np.arange(7), np.arange(7, 24), np.arange(1, 24, 5)):
        assert flattened(whole.take(rows)) == flattened(drawn(rows))


def test_what_cannot_be_divided_is_drawn_batch_by_batch():
    assert not compile_image([CenterCrop(32), RandomUpset()]).is_divisible  # a user's step
    assert not compile_image([CenterCrop(32)], pad_to_multiple_of=8).is_divisible
