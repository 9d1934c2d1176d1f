"""A custom step before another one moves all transforms to the slow engine: loader and verdict say so."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from stoker import ImageLoader
from stoker.augment import GaussianBlur, RandomResizedCrop, Transform
from stoker.augment.steps import Step


@dataclass(frozen=True)
class Scratch(Step):
    """A step that no engine but the reference executes."""

    def apply(self, i: int, pixels: Any) -> Any:
        return pixels[::-1]


@dataclass(frozen=True)
class Scratched(Transform):
    """Adds the step."""

    draws: ClassVar[int] = 0

    def params(self, state: Any, u: Any) -> None:
        state.add_steps(Scratch(np.ones(len(u), bool)))


SCRATCHED: list[Any] = [RandomResizedCrop(8), Scratched(), GaussianBlur(3)]


def test_a_custom_step_before_another_step_is_a_warning_that_names_it(
    load: Callable[..., ImageLoader],
) -> None:
    with pytest.warns(
        UserWarning, match=r"'reference' runs all .* step Scratch before another .* a function of"
    ) as caught:
        loader = load(transforms=SCRATCHED, columns=("image",))
    assert loader.engine == "reference"
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(loader)) == 4


def test_a_custom_step_at_the_end_and_a_slow_engine_that_is_asked_for_warn_of_nothing(
    load: Callable[..., ImageLoader],
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(transforms=SCRATCHED, engine="reference")
        assert load(transforms=SCRATCHED[:2]).engine == "native"


@pytest.mark.filterwarnings("ignore:the slow engine")
def test_the_statistics_name_the_engine_and_the_step(load: Callable[..., ImageLoader]) -> None:
    for engine in ("auto", "reference"):
        stats = load(transforms=SCRATCHED, engine=engine).stats()
        assert (stats.engine, stats.slow_steps) == ("reference", ("Scratch",))
    stats = load(transforms=SCRATCHED[:2]).stats()
    assert (stats.engine, stats.slow_steps, stats.custom_steps) == ("native", (), ("Scratch",))
    assert (load().stats().engine, load().stats().slow_steps) == ("native", ())
