"""Parameters of many samples at once, divided into those of batches."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest
from helpers.transforms import CASES, RandomUpset

from stoker.augment import (
    AugMix,
    CenterCrop,
    ElasticTransform,
    ImageParams,
    Normalize,
    RandomErasing,
    RandomHorizontalFlip,
    Resize,
    Transform,
    compile_image,
)


def arrays(value: Any) -> list[Any]:
    """All values of parameters, in their order; arrays as dtype, shape and bytes."""
    if isinstance(value, np.ndarray):
        return [(value.dtype.str, value.shape, value.tobytes())]
    if is_dataclass(value):
        return [type(value), *(arrays(getattr(value, one.name)) for one in fields(value))]
    return [arrays(one) for one in value] if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("transform", [case.transform for case in CASES], ids=repr)
def test_divided_parameters_are_those_that_each_batch_draws(transform: Transform) -> None:
    crop = [] if isinstance(transform, AugMix | ElasticTransform | RandomErasing) else [CenterCrop(32)]
    erase = [] if isinstance(transform, RandomErasing) else [RandomErasing(0.5)]
    plan = compile_image([Resize((72, 64)), RandomHorizontalFlip(), transform, *crop, *erase, Normalize()])
    rng = np.random.default_rng(0)
    height, width = rng.integers(50, 120, (2, 24))
    keys = rng.permutation(1000)[:24]

    def draw(rows: Any) -> ImageParams:
        return plan.draw(height[rows], width[rows], keys[rows], 3, 5)

    whole = draw(slice(None))
    assert plan.is_divisible
    for rows in (np.arange(7), np.arange(7, 24), np.arange(1, 24, 5)):
        assert arrays(whole.take(rows)) == arrays(draw(rows))


def test_what_cannot_be_divided_is_drawn_batch_by_batch() -> None:
    assert not compile_image([CenterCrop(32), RandomUpset()]).is_divisible  # a user's step
    assert not compile_image([CenterCrop(32)], pad_to_multiple_of=8).is_divisible
