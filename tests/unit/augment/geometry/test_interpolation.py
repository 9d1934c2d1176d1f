"""Interpolation of resizes: the argument, the parameters of a batch, and the reference against Pillow."""

import enum
import json

import numpy as np
import pytest
from PIL import Image

from stoker.augment import (
    CenterCrop,
    RandomAffine,
    RandomApply,
    RandomChoice,
    RandomResize,
    RandomResizedCrop,
    RandomShortestSize,
    Resize,
    ScaleJitter,
    compile_image,
    load_recipe,
    save_recipe,
)
from stoker.augment.reference import render
from stoker.augment.resampling import SUPPORT, Interpolation
from stoker.errors import ConfigError

NAMES = ["nearest", "bilinear", "bicubic", "lanczos"]
RESIZES = [
    lambda name: Resize(64, interpolation=name),
    lambda name: RandomResizedCrop(64, interpolation=name),
    lambda name: ScaleJitter(64, interpolation=name),
    lambda name: RandomShortestSize(64, interpolation=name),
    lambda name: RandomResize(32, 64, interpolation=name),
]


class InterpolationMode(enum.Enum):
    """As torchvision has it."""

    NEAREST_EXACT = "nearest-exact"
    BICUBIC = "bicubic"
    HAMMING = "hamming"


def noise(height, width):
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)


def draw(transforms, n=64, height=90, width=70):
    return compile_image(transforms).draw(np.full(n, height), np.full(n, width), np.arange(n), 0, 0)


@pytest.mark.parametrize("resize", RESIZES)
class TestArgument:
    @pytest.mark.parametrize("name", NAMES)
    def test_recipes_keep_it(self, resize, name, tmp_path):
        assert resize(name).interpolation == name
        save_recipe([resize(name)], tmp_path / "recipe.json")
        assert json.loads((tmp_path / "recipe.json").read_text())["transforms"][0]["interpolation"] == name
        assert load_recipe(tmp_path / "recipe.json") == [resize(name)]

    def test_torchvisions_modes_are_accepted(self, resize):
        assert resize(InterpolationMode.BICUBIC) == resize("bicubic") == resize(Interpolation.BICUBIC)
        assert resize(InterpolationMode.NEAREST_EXACT) == resize("nearest")

    @pytest.mark.parametrize("wrong", ["cubic", "BICUBIC", InterpolationMode.HAMMING, 3, None, ["bicubic"]])
    def test_another_value_is_refused(self, resize, wrong):
        with pytest.raises(
            ConfigError, match="interpolation must be one of nearest, bilinear, bicubic, lanczos"
        ):
            resize(wrong)

    @pytest.mark.parametrize("name", NAMES)
    def test_all_samples_have_it(self, resize, name):
        plan = compile_image([resize(name), CenterCrop(32)])
        params = plan.draw(np.full(5, 90), np.full(5, 70), np.arange(5), 0, 0)
        if name == "bilinear":
            assert params.interpolation is None
            assert "interpolation" not in plan.needs
        else:
            assert params.interpolation.tolist() == [Interpolation[name.upper()]] * 5
            assert params.interpolation.dtype == np.uint8
            assert "interpolation" in plan.needs


def test_the_last_resize_decides():
    assert (
        draw([Resize(80, "bicubic"), RandomResizedCrop(32)]).interpolation == Interpolation.BILINEAR
    ).all()
    params = draw([Resize(80), RandomResizedCrop(32, interpolation="lanczos")])
    assert (params.interpolation == Interpolation.LANCZOS).all()


def test_samples_may_have_different_interpolations():
    transforms = [Resize((40, 40)), RandomApply([RandomChoice([Resize((30, 30), n) for n in NAMES])], 0.5)]
    params = draw([*transforms, CenterCrop(30)], n=400)
    share = np.bincount(params.interpolation, minlength=4) / 400
    assert share == pytest.approx([1 / 8, 5 / 8, 1 / 8, 1 / 8], abs=0.06)
    assert "interpolation" in compile_image([*transforms, CenterCrop(30)]).needs
    pixels = noise(90, 70)
    for number in (0, 2, 3):
        alone = render(draw([Resize((30, 30), NAMES[number])], n=1), 0, pixels)
        chosen = int(np.argmax(params.interpolation == number))
        np.testing.assert_array_equal(render(params, chosen, pixels), alone)


@pytest.mark.parametrize("name", NAMES)
def test_a_random_resized_crop_is_pillows_crop_and_resize(name):
    pixels = noise(121, 97)
    params = draw([RandomResizedCrop((24, 40), interpolation=name)], 12, 121, 97)
    for i, (top, left, height, width) in enumerate(params.crop.tolist()):
        part = Image.fromarray(pixels[top : top + height, left : left + width])
        if name == "nearest":
            rows, columns = np.arange(24) * 2 + 1, np.arange(40) * 2 + 1
            expected = np.asarray(part)[np.ix_(rows * height // 48, columns * width // 80)]
        else:
            how = Image.Resampling[name.upper()]
            expected = part.resize((40, height), how).resize((40, 24), how)
        np.testing.assert_array_equal(render(params, i, pixels), np.asarray(expected))


@pytest.mark.parametrize("size", [(16, 40), (64, 8)])
def test_nearest_is_pillows_where_no_centre_meets_an_edge(size):
    pixels = noise(24, 28)
    expected = Image.fromarray(pixels).resize(size[::-1], Image.Resampling.NEAREST)
    np.testing.assert_array_equal(render(draw([Resize(size, "nearest")], 1, 24, 28), 0, pixels), expected)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [37, 150])
def test_a_crop_of_a_resized_image_reads_as_far_as_the_filter_reaches(name, size):
    """As if all of the image had been resized, but for rounding: Pillow takes corners as float32."""
    pixels = noise(90, 61)
    render_all = render(draw([Resize((size, size), name)], 1, 90, 61), 0, pixels)
    params = draw([Resize((size, size), name), CenterCrop(20)], 1, 90, 61)
    margin = round((size - 20) / 2)
    expected = render_all[margin : margin + 20, margin : margin + 20]
    assert np.abs(render(params, 0, pixels).astype(int) - expected).max() <= 2
    crop, region = params.crop[0], params.region[0]
    reach = SUPPORT[Interpolation[name.upper()]] * np.maximum(np.array([90, 61]) / size, 1)
    assert np.array_equal(crop[:2], np.floor(region[:2] - reach))
    assert np.array_equal(crop[:2] + crop[2:], np.ceil(region[2:] + reach))


def test_warped_images_are_resampled_bilinearly():
    pixels = noise(90, 70)
    turns = RandomApply([RandomAffine(30)], 0.5)
    params = {name: draw([Resize((40, 40), name), turns]) for name in ("bilinear", "bicubic")}
    images = {name: np.stack([render(params[name], i, pixels) for i in range(64)]) for name in params}
    warped = np.array([params["bicubic"].warp.applies(i, (40, 40)) for i in range(64)])
    assert 16 < warped.sum() < 48
    np.testing.assert_array_equal(images["bicubic"][warped], images["bilinear"][warped])
    whole = render(draw([Resize((40, 40), "bicubic")], 1), 0, pixels)
    assert all(np.array_equal(image, whole) for image in images["bicubic"][~warped])
