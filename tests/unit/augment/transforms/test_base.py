"""Users' own transforms: they draw like others, the reference executes them, and recipes name them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from stoker.augment import (
    CenterCrop,
    ColorJitter,
    RandomApply,
    RandomHorizontalFlip,
    RandomOrder,
    RandomRotation,
    Resize,
    Transform,
    compile_image,
    load_recipe,
    register,
    save_recipe,
)
from stoker.augment.geometry.annotations import transform_boxes
from stoker.augment.reference import execute
from stoker.augment.state import TransformState
from stoker.augment.steps import Step, Table
from stoker.errors import ConfigError
from stoker.pipeline.engines.registry import check_needs, executes


@dataclass(frozen=True)
class Vignette(Step):
    strength: np.ndarray

    def apply(self, i, pixels):
        rows, columns = (np.linspace(-1, 1, n) for n in pixels.shape[:2])
        light = 1 - self.strength[i] * np.clip(np.hypot(*np.meshgrid(rows, columns, indexing="ij")), 0, 1)
        return (pixels * light[..., None]).astype(np.uint8)


@register
@dataclass(frozen=True)
class RandomVignette(Transform):
    strength: tuple[float, float] = (0.2, 0.6)
    p: float = 0.5

    draws: ClassVar[int] = 2

    def __post_init__(self):
        self.set_range("strength", 0, 1, "a pair, 0 <= low <= high <= 1")
        self.check_probability()

    def params(self, state, u):
        low, high = self.strength
        state.add_steps(Vignette(u[:, 0] < self.p, low + (high - low) * u[:, 1]))


@register
@dataclass(frozen=True)
class RandomGamma(Transform):
    largest: float = 2.0

    draws: ClassVar[int] = 1

    def params(self, state, u):
        gamma = self.largest ** (2 * u - 1)
        levels = np.rint(255 * (np.arange(256) / 255) ** gamma).astype(np.uint8)
        state.add_steps(Table(np.ones(len(u), bool), np.repeat(levels[:, None], 3, axis=1)))


@register
@dataclass(frozen=True)
class Transpose(Transform):
    """Custom geometry, for square images."""

    warps: ClassVar[bool] = True

    def params(self, state, u):
        state.distort(np.tile(np.eye(3)[[1, 0, 2]], (len(u), 1, 1)))


PIXELS = np.random.default_rng(0).integers(0, 256, (20, 20, 3), np.uint8)


def draw(*transforms, n=40):
    plan = compile_image([CenterCrop(20), *transforms])
    return plan.draw(np.full(n, 20), np.full(n, 20), np.arange(n), 0, 0)


def run(params, i):
    return execute(params, i, PIXELS, "uint8", "NHWC")


def test_a_custom_step_acts_between_other_transforms():
    params = draw(ColorJitter((0.5, 0.5)), RandomVignette(), RandomHorizontalFlip(1))
    step = params.steps[-1]
    assert 8 < step.where.sum() < 32
    half = np.floor(PIXELS * 0.5 + 0.5).astype(np.uint8)[:, ::-1]
    for i in range(40):
        expected = step.apply(i, half) if step.where[i] else half
        np.testing.assert_array_equal(run(params, i), expected)


def test_only_the_reference_executes_a_custom_step_before_another_step():
    plan = compile_image([CenterCrop(20), RandomVignette()])
    assert plan.needs == plan.last_custom_steps == {"Vignette"}
    assert executes("native", plan.needs, plan.last_custom_steps)
    assert not executes("dali", plan.needs, plan.last_custom_steps)
    plan = compile_image([CenterCrop(20), RandomVignette(), RandomGamma()])
    needs = plan.needs - {"Table"}
    assert needs == {"Vignette"}
    assert plan.last_custom_steps == set()
    assert executes("reference", needs)
    assert not executes("native", needs)
    with pytest.raises(ConfigError, match=r"engine='native' does not execute .*: Vignette"):
        check_needs("native", needs)


def test_a_custom_table_acts_on_each_sample():
    params = draw(RandomGamma(), n=9)
    assert params.needs() == {"Table"}
    assert len({run(params, i).tobytes() for i in range(9)}) == 9


def test_custom_geometry_composes_with_warps():
    np.testing.assert_array_equal(run(draw(Transpose()), 0), PIXELS.transpose(1, 0, 2))
    np.testing.assert_array_equal(
        run(draw(RandomRotation((90, 90)), Transpose(), Transpose()), 0), np.rot90(PIXELS)
    )
    with pytest.raises(ConfigError, match="different sizes"):
        compile_image([Transpose(), CenterCrop(20)])


def test_a_custom_transform_may_be_inside_another():
    params = draw(RandomApply([RandomVignette(p=1)], 0.5))
    assert 8 < params.steps[0].where.sum() < 32


def test_recipes_hold_registered_transforms(tmp_path):
    transforms = [CenterCrop(20), RandomApply([RandomVignette((0.1, 0.2))], 0.3), RandomGamma(3), Transpose()]
    save_recipe(transforms, tmp_path / "own.json")
    assert load_recipe(tmp_path / "own.json") == transforms


@dataclass(frozen=True)
class Curve(Transform):
    levels: np.ndarray | None = None


def test_an_argument_that_json_cannot_hold_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="must be values that JSON can hold, found ndarray"):
        save_recipe([Curve(np.arange(256))], tmp_path / "own.json")
    assert not list(tmp_path.iterdir())


def test_a_function_in_a_recipe_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="a recipe holds transforms, found <function run"):
        save_recipe([CenterCrop(20), run], tmp_path / "own.json")


def test_a_class_may_be_registered_again_but_no_other_of_its_name():
    register(RandomGamma)
    with pytest.raises(ConfigError, match="already a transform named RandomGamma"):
        register(dataclass(frozen=True)(type("RandomGamma", (Transform,), {"__module__": "elsewhere"})))
    with pytest.raises(ConfigError, match="already a transform named CenterCrop"):
        register(dataclass(frozen=True)(type("CenterCrop", (Transform,), {})))


@pytest.mark.parametrize("what", [Vignette, type("Plain", (Transform,), {})])
def test_a_class_that_a_recipe_cannot_hold_is_refused(what):
    with pytest.raises(ConfigError, match="a recipe cannot hold"):
        register(what)


def test_arguments_of_a_custom_transform_are_checked():
    with pytest.raises(ConfigError, match="RandomVignette: strength must be a pair"):
        RandomVignette((0.5, 2))


def draw_wide(*transforms, n=40):
    plan = compile_image(transforms)
    return plan.draw(np.full(n, 24), np.full(n, 30), np.arange(n), 0, 0)


@dataclass(frozen=True)
class Half(Transform):
    """Takes a quarter of the image and does not say so."""

    def params(self, state, u):
        state.crop(state.size // 4, state.size // 2)


@dataclass(frozen=True)
class SometimesSmaller(Transform):
    draws: ClassVar[int] = 1

    def params(self, state, u):
        state.resize(np.where(u[:, 0] < 0.5, 20, 16)[None].repeat(2, axis=0))


@dataclass(frozen=True)
class Promise(Transform):
    def params(self, state, u):
        pass

    def output_size(self, size):
        return 5, 6


@pytest.mark.parametrize(
    ("transforms", "message"),
    [
        ([CenterCrop(20), Half()], r"^Half\(\) made an image 10 x 10 .* its output_size says 20 x 20"),
        ([CenterCrop(20), Half(), CenterCrop(20)], r"^Half\(\) made an image 10 x 10 "),
        ([CenterCrop(20), RandomApply([Half()], 1)], r"^RandomApply\(.*Half\(\).* made an image 10 x 10 "),
        ([CenterCrop(20), SometimesSmaller()], r"^SometimesSmaller\(\) made an image 16 x 16 "),
        ([Resize((20, 20)), Promise()], r"^Promise\(\) made an image 20 x 20 .* says 5 x 6"),
    ],
)
def test_a_size_other_than_that_of_output_size_is_refused(transforms, message):
    with pytest.raises(ConfigError, match=message):
        draw_wide(*transforms)


def test_any_size_is_accepted_where_the_next_transform_gives_one_size():
    assert draw_wide(Half(), CenterCrop(20)).size == (20, 20)


ON, TABLE = np.ones(1, bool), np.zeros((1, 3, 256), np.uint8)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            Table(ON, TABLE * 0.5),
            r"^Table: levels must be \(1, 3, 256\) uint8, .*, found \(1, 3, 256\) float64",
        ),
        (Table(ON, TABLE[:, 0]), r"^Table: levels must be \(1, 3, 256\) uint8, .*, found \(1, 256\) uint8"),
        (Table(ON, [[1], [2]]), r"^Table: levels must be .*, found \[\[1\], \[2\]\]"),
        (Table(np.ones(1), TABLE), r"^Table: where must be \(1,\) bool, .*, found \(1,\) float64"),
        (Table(np.ones(2, bool), TABLE), r"^Table: where must be \(1,\) bool, .*, found \(2,\) bool"),
    ],
)
def test_a_table_of_another_form_is_refused(table, message):
    with pytest.raises(ConfigError, match=message):
        TransformState.of(np.ones(1), np.ones(1)).add_steps(table)


@dataclass(frozen=True)
class Returns(Step):
    make: Any

    def apply(self, i, pixels):
        return self.make(pixels)


@dataclass(frozen=True)
class Returning(Transform):
    make: Any

    def params(self, state, u):
        state.add_steps(Returns(np.ones(len(u), bool), self.make))


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (lambda pixels: pixels * 0.5, r"\(20, 20, 3\) float64"),
        (lambda pixels: pixels[:, :, 0], r"\(20, 20\) uint8"),
        (lambda pixels: pixels[1:], r"\(19, 20, 3\) uint8"),
        (lambda pixels: None, "None"),
    ],
)
def test_a_step_that_returns_another_form_is_refused(make, found):
    params = draw_wide(CenterCrop(20), Returning(make), n=1)
    with pytest.raises(
        ConfigError, match=rf"^Returns: apply must return \(20, 20, 3\) uint8, as it gets, found {found}"
    ):
        execute(params, 0, np.zeros((24, 30, 3), np.uint8))


class Undeclared(Transform):
    def __init__(self, strength):
        self.strength = strength

    def params(self, state, u):
        pass


@dataclass(frozen=True)
class Decides(Transform):
    def decide(self, state, u):
        pass


@dataclass(frozen=True)
class Nothing(Transform):
    pass


@pytest.mark.parametrize("within", [None, RandomApply, RandomOrder])
@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (
            Undeclared(3),
            r"(?s)^Undeclared is not a dataclass, .* its strength.*@dataclass\(frozen=True\) above class",
        ),
        (
            Decides(),
            r"(?s)^Decides has no method params\(self, state, u\).*Rename its method decide to params",
        ),
        (Nothing(), r"(?s)^Nothing has no method params\(self, state, u\).*Define it"),
    ],
)
def test_a_class_that_is_no_whole_transform_is_refused_with_the_remedy(transform, message, within):
    with pytest.raises(ConfigError, match=message):
        compile_image([CenterCrop(20), within([transform]) if within else transform])


def test_a_class_without_arguments_has_none_to_declare():
    class Same(Transform):
        def params(self, state, u):
            pass

    assert compile_image([CenterCrop(20), Same()]).to_json()["transforms"][1] == {"name": "Same"}


@dataclass(frozen=True)
class Flatten(Transform):
    warps: ClassVar[bool] = True

    def params(self, state, u):
        state.distort(np.diag((1.0, 0, 1))[None].repeat(len(u), axis=0))


def test_a_warp_that_boxes_cannot_follow_is_refused():
    params = draw_wide(CenterCrop(20), Flatten(), n=2)
    with pytest.raises(ConfigError, match=r"(?s)boxes, keypoints and masks cannot follow .*state\.distort"):
        transform_boxes(params, [(0, 0, 9, 9)], np.zeros(1, int))
