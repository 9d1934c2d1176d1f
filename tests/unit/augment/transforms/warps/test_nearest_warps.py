"""Warps that pick pixels: the argument, compositions with other transforms, and the pixels."""

import enum
import json

import numpy as np
import pytest

from stoker.augment import (
    AugMix,
    AutoAugment,
    CenterCrop,
    RandAugment,
    RandomAffine,
    RandomApply,
    RandomChoice,
    RandomHorizontalFlip,
    RandomPerspective,
    RandomRotation,
    Resize,
    TrivialAugmentWide,
    compile_image,
    load_recipe,
    save_recipe,
)
from stoker.augment.reference import render
from stoker.augment.resampling import pick
from stoker.augment.steps import Distort
from stoker.errors import ConfigError

WARPS = [
    lambda name: RandomRotation(30, interpolation=name),
    lambda name: RandomAffine(30, interpolation=name),
    lambda name: RandomPerspective(interpolation=name),
    lambda name: RandAugment(interpolation=name),
    lambda name: TrivialAugmentWide(interpolation=name),
    lambda name: AutoAugment(interpolation=name),
    lambda name: AugMix(interpolation=name),
]
every_warp = pytest.mark.parametrize("make", WARPS)
KEEP = CenterCrop((20, 24))
PIXELS = np.random.default_rng(0).integers(0, 256, (20, 24, 3), np.uint8)


class InterpolationMode(enum.Enum):
    """As torchvision has it."""

    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"


def draw(*transforms, n=40, height=20, width=24):
    return compile_image(transforms).draw(np.full(n, height), np.full(n, width), np.arange(n), 0, 0)


def picked(*transforms):
    """(N,) bool, the samples that are warped and pick."""
    params = draw(KEEP, *transforms)
    warp = params.warp
    return np.array([warp.applies(i, params.size) and warp.picks(i) for i in range(len(params))])


@every_warp
def test_an_interpolation_is_kept_in_recipes_and_others_are_refused(make, tmp_path):
    for name in ("nearest", "bilinear"):
        assert make(InterpolationMode[name.upper()]) == make(name)
        assert make(name).interpolation == name
        save_recipe([KEEP, make(name)], tmp_path / "recipe.json")
        assert load_recipe(tmp_path / "recipe.json") == [KEEP, make(name)]
        assert json.loads((tmp_path / "recipe.json").read_text())["transforms"][1]["interpolation"] == name
    for wrong in ("bicubic", InterpolationMode.BICUBIC, "lanczos", "cubic", None, 0):
        with pytest.raises(ConfigError, match="interpolation must be one of nearest, bilinear; found"):
            make(wrong)


def test_bilinear_is_the_default():
    for made in (RandomRotation(3), RandomAffine(3), RandomPerspective(), RandAugment(), AutoAugment()):
        assert made.interpolation == "bilinear"
    assert draw(KEEP, RandomRotation(3)).warp.nearest is None


@every_warp
def test_needs_of_a_plan_name_picking(make):
    needs = compile_image([KEEP, make("nearest")]).needs
    assert ("WeightedSum" in needs) != ("nearest" in needs)
    assert "nearest" not in compile_image([KEEP, make("bilinear")]).needs
    rarely = RandomApply([make("nearest")], 0.01)
    assert compile_image([KEEP, rarely]).needs == needs


def test_augmix_distorts_by_picking():
    def shifts(name):
        (mix,) = draw(KEEP, AugMix(interpolation=name)).steps
        return [step for chain in mix.chains for step in chain if isinstance(step, Distort)]

    assert {step.nearest for step in shifts("nearest")} == {True}
    assert {step.nearest for step in shifts("bilinear")} == {False}


def test_all_warps_that_change_a_sample_must_be_nearest():
    turn, smooth = RandomRotation((9, 9), "nearest"), RandomRotation((9, 9))
    assert picked(turn).all()
    assert picked(turn, RandomHorizontalFlip(), turn, CenterCrop(16)).all()
    assert not picked(turn, smooth).any()
    assert not picked(smooth, turn).any()
    assert not picked(turn, Resize((30, 30))).any()
    assert picked(turn, Resize((30, 30), "nearest")).all()
    assert picked(Resize((30, 30)), turn).all()


def test_a_warp_that_leaves_a_sample_alone_does_not_matter():
    turn, perspective = RandomRotation((9, 9), "nearest"), RandomPerspective(0.5, 0.5)
    moved = (draw(KEEP, perspective).warp.matrix != np.eye(3)).any(axis=(1, 2))
    assert 5 < moved.sum() < 35
    np.testing.assert_array_equal(picked(perspective, turn), ~moved)
    np.testing.assert_array_equal(picked(RandomApply([RandomPerspective(0.5, 0)]), turn), True)
    some = picked(RandomApply([turn]))
    assert 5 < some.sum() < 35
    softened = picked(turn, RandomApply([RandomRotation((9, 9))]))
    assert 5 < softened.sum() < 35
    either = RandomChoice([turn, RandomRotation((9, 9))])
    assert 5 < picked(either).sum() < 35


def test_pixels_are_picked_from_the_resized_image():
    pixels = np.random.default_rng(1).integers(0, 256, (50, 64, 3), np.uint8)
    for name in ("bilinear", "bicubic", "nearest"):
        resize = Resize((20, 24), name)
        params = draw(resize, RandomRotation((33, 33), "nearest", fill=(1, 2, 3)), n=1, height=50, width=64)
        resized = render(draw(resize, n=1, height=50, width=64), 0, pixels)
        got = render(params, 0, pixels)
        np.testing.assert_array_equal(got, pick(resized, params.warp.matrix[0], (20, 24), (1, 2, 3)))
        known = {tuple(one) for one in resized.reshape(-1, 3).tolist()} | {(1, 2, 3)}
        assert {tuple(one) for one in got.reshape(-1, 3).tolist()} <= known


@pytest.mark.parametrize(
    ("degrees", "expected"),
    [(90, np.rot90(PIXELS[:, 2:22])), (180, np.rot90(PIXELS[:, 2:22], 2)), (0, PIXELS[:, 2:22])],
)
def test_quarter_turns_move_pixels(degrees, expected):
    params = draw(CenterCrop(20), RandomRotation((degrees, degrees), "nearest"), n=1)
    np.testing.assert_array_equal(render(params, 0, PIXELS), expected)


def test_pick_takes_the_pixel_that_holds_the_centre():
    matrix = np.array([[0.5, 0, -1], [0, 2, 0.25], [0, 0, 1.0]])
    got = pick(PIXELS, matrix, (12, 30), (7, 8, 9))
    for row in range(12):
        for column in range(30):
            x, y = (column + 0.5) * 0.5 - 1, (row + 0.5) * 2 + 0.25
            inside = 0 <= x < 24 and 0 <= y < 20
            assert got[row, column].tolist() == (PIXELS[int(y), int(x)].tolist() if inside else [7, 8, 9])


def test_behind_the_horizon_only_fill_is_picked():
    matrix = np.array([[1.0, 0, 0], [0, 1, 0], [0, -0.1, 1]])
    got = pick(PIXELS, matrix, (20, 24), (7, 8, 9))
    assert (got[10:] == (7, 8, 9)).all()
    assert (got[:3] != (7, 8, 9)).any()
