"""Mistakes in a user's own transform raise errors that name them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from stoker.augment import CenterCrop, RandomApply, RandomOrder, Resize, Transform, compile_image
from stoker.augment.geometry.annotations import transform_boxes
from stoker.augment.reference import execute
from stoker.augment.steps import Step, Table
from stoker.errors import ConfigError


def draw(*transforms, n=40):
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
        draw(*transforms)


def test_any_size_is_accepted_where_the_next_transform_gives_one_size():
    assert draw(Half(), CenterCrop(20)).size == (20, 20)


@dataclass(frozen=True)
class Levels(Transform):
    table: str = ""

    def params(self, state, u):
        n = state.size.shape[1]
        state.add_steps(
            {
                "shares": lambda: Table(np.ones(n, bool), np.full((n, 3, 256), 0.5)),
                "one channel": lambda: Table(np.ones(n, bool), np.zeros((n, 256), np.uint8)),
                "a list": lambda: Table(np.ones(n, bool), [[1], [2]]),
                "weights": lambda: Table(np.ones(n), np.zeros((n, 3, 256), np.uint8)),
                "one answer": lambda: Table(np.ones(n + 1, bool), np.zeros((n, 3, 256), np.uint8)),
            }[self.table]()
        )


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("shares", r"^Table: levels must be \(1, 3, 256\) uint8, .*; found \(1, 3, 256\) float64"),
        ("one channel", r"^Table: levels must be \(1, 3, 256\) uint8, .*; found \(1, 256\) uint8"),
        ("a list", r"^Table: levels must be .*; found \[\[1\], \[2\]\]"),
        ("weights", r"^Table: where must be \(1,\) bool, .*; found \(1,\) float64"),
        ("one answer", r"^Table: where must be \(1,\) bool, .*; found \(2,\) bool"),
    ],
)
def test_a_table_of_another_form_is_refused(table, message):
    with pytest.raises(ConfigError, match=message):
        compile_image([CenterCrop(20), Levels(table)])


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
    params = draw(CenterCrop(20), Returning(make), n=1)
    with pytest.raises(
        ConfigError, match=rf"^Returns: apply must return \(20, 20, 3\) uint8, as it gets; found {found}"
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
    params = draw(CenterCrop(20), Flatten(), n=2)
    with pytest.raises(ConfigError, match=r"(?s)boxes, keypoints and masks cannot follow .*state\.distort"):
        transform_boxes(params, [(0, 0, 9, 9)], np.zeros(1, int))
