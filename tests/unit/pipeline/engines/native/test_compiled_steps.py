"""Compiled functions as steps of the native engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from helpers.transforms.compiled_functions import darken
from helpers.transforms.custom_steps import of_both_engines

import stoker
from stoker.augment import RandomCrop, RandomHorizontalFlip, RandomPosterize, Transform, Views
from stoker.augment.steps import Compiled
from stoker.errors import ConfigError


@dataclass(frozen=True)
class RandomDarken(Transform):
    """A compiled function, which may stand before other steps."""

    function: ClassVar[Any] = darken

    draws: ClassVar[int] = 2

    def params(self, state: Any, u: Any) -> None:
        state.add_steps(Compiled(u[:, 0] < 0.7, u[:, 1:], type(self).function))


def test_a_compiled_function_runs_in_the_native_engine_also_between_other_steps(thumbnails: Path) -> None:
    transforms = [RandomCrop(24), RandomDarken(), RandomPosterize(4), RandomDarken(), RandomHorizontalFlip()]
    np.testing.assert_array_equal(*of_both_engines(thumbnails, transforms))
    with stoker.ImageLoader(thumbnails, batch_size=4, transforms={"views": Views(2, transforms)}) as loader:
        assert loader.engine == "native"
        assert next(iter(loader)).views.shape == (2, 4, 3, 24, 24)


def test_a_function_of_numba_and_an_address_are_compiled_functions() -> None:
    numba = pytest.importorskip("numba")

    @numba.cfunc("void(CPointer(uint8), int64, int64, CPointer(float64))")
    def invert(rgb: Any, height: int, width: int, values: Any) -> None:
        for k in range(3 * height * width):
            rgb[k] = 255 - rgb[k]

    pixels = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    for function in (invert, invert.address):
        step = Compiled(np.ones(1, bool), np.zeros((1, 0)), function)
        step.check(1)
        np.testing.assert_array_equal(step.run(0, pixels), 255 - pixels)


@pytest.mark.parametrize("wrong", [None, 0, True, len])
def test_what_is_no_compiled_function_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="function must be a compiled function"):
        Compiled(np.ones(1, bool), np.zeros((1, 0)), wrong).check(1)


def test_values_of_a_compiled_function_have_a_row_for_each_sample() -> None:
    with pytest.raises(ConfigError, match=r"values must be \(1, K\) float64"):
        Compiled(np.ones(1, bool), np.zeros(1), darken).check(1)
