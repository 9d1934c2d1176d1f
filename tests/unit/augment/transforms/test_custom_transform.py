"""Users' own transforms: they draw like others, the reference executes them, and recipes name them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from stoker.augment import (
    CenterCrop,
    ColorJitter,
    RandomApply,
    RandomHorizontalFlip,
    RandomRotation,
    Transform,
    compile_image,
    load_recipe,
    register,
    save_recipe,
)
from stoker.augment.reference import execute
from stoker.augment.steps import Step, Table
from stoker.errors import ConfigError
from stoker.pipeline.engines.selection.execution import check_needs, executes


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
    with pytest.raises(ConfigError, match="must be values that JSON can hold; found ndarray"):
        save_recipe([Curve(np.arange(256))], tmp_path / "own.json")
    assert not list(tmp_path.iterdir())


def test_a_function_in_a_recipe_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="a recipe holds transforms; found <function run"):
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
