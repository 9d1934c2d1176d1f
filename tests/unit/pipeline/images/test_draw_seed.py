"""Two views of each sample: ``draw_seed`` draws other parameters in the same order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stoker import ImageLoader
from stoker.augment import CutMix, MixUp, RandomChoice, Resize
from stoker.errors import CheckpointError

OPTIONS: dict[str, Any] = {"columns": ("image", "label", "row"), "shuffle": True, "seed": 3}


def test_two_loaders_with_one_seed_show_two_crops_of_each_sample(load: Callable[..., ImageLoader]) -> None:
    loaders = load(**OPTIONS), load(**OPTIONS), load(**OPTIONS, draw_seed=4)
    for batch, same, other in zip(*loaders, strict=True):
        assert batch.row.tolist() == other.row.tolist()
        assert np.array_equal(batch.image, same.image)
        assert (batch.image != other.image).any(axis=(1, 2, 3)).all()


@pytest.mark.parametrize("transform", [MixUp(0.5), CutMix(), RandomChoice([MixUp(0.5), CutMix()])])
def test_the_draw_seed_also_decides_how_a_batch_is_mixed(
    load: Callable[..., ImageLoader], transform: Any
) -> None:
    options = {**OPTIONS, "transforms": [Resize((8, 8)), transform], "columns": ("image", "row")}
    for batch, other in zip(load(**options), load(**options, draw_seed=4), strict=True):
        assert batch.row.tolist() == other.row.tolist()
        assert not np.array_equal(batch.image, other.image)


def test_parameters_depend_on_the_draw_seed_and_the_order_on_the_seed(
    load: Callable[..., ImageLoader],
) -> None:
    options = {**OPTIONS, "shuffle": False}
    with_seed, with_draw_seed = load(**{**options, "seed": 9}), load(**options, draw_seed=np.int64(9))
    for batch, same in zip(with_seed, with_draw_seed, strict=True):
        assert np.array_equal(batch.image, same.image)


def test_a_state_of_another_draw_seed_is_refused(load: Callable[..., ImageLoader]) -> None:
    state = load(**OPTIONS).state_dict()
    with pytest.raises(CheckpointError, match="draw_seed was None and is 4"):
        load(**OPTIONS, draw_seed=4).load_state_dict(state)
    with pytest.raises(CheckpointError, match="draw_seed was 4 and is None"):
        load(**OPTIONS).load_state_dict(load(**OPTIONS, draw_seed=4).state_dict())
    load(**OPTIONS, draw_seed=3).load_state_dict(state)  # what seed=3 alone draws
