"""Shapes for images of many aspect ratios: exact, against every choice of so many shapes."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from stoker.bucketing.aspect_shapes import best_shapes, candidate_shapes, cropped_shares, nearest_shapes
from stoker.errors import ConfigError


def test_candidates_have_the_area_the_multiple_and_the_ratio() -> None:
    shapes = candidate_shapes(512 * 512, 64, 2.0)
    assert (512, 512) in map(tuple, shapes.tolist())
    assert not (shapes % 64).any()
    assert (shapes.max(axis=1) <= 2 * shapes.min(axis=1)).all()
    assert (np.abs(shapes.prod(axis=1) / 512**2 - 1) < 0.11).all()
    assert (np.diff(shapes[:, 0] / shapes[:, 1]) > 0).all()
    assert sorted(map(tuple, shapes.tolist())) == sorted(map(tuple, shapes[:, ::-1].tolist()))


def test_no_shape_is_refused() -> None:
    with pytest.raises(ConfigError, match="no shape of about 100 pixels has sides that are multiples of 64"):
        candidate_shapes(100, 64, 1.0 - 1e-9)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_no_other_choice_of_shapes_crops_less(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(50, 900, (60, 2))
    candidates = candidate_shapes(256 * 256, 32, 2.5)[:: 2 if seed else 1][:9]

    def cost(shapes: np.ndarray[Any, Any]) -> float:
        return float(cropped_shares(sizes, shapes[nearest_shapes(sizes, shapes)]).sum())

    least = min(cost(candidates[list(some)]) for some in combinations(range(len(candidates)), count))
    found = best_shapes(sizes, candidates, count)
    assert len(found) <= count
    assert cost(found) == pytest.approx(least)


def test_the_cropped_share_is_that_of_a_cover_crop() -> None:
    sizes, shapes = np.array([[100, 200], [300, 100]]), np.array([[64, 64], [128, 64]])
    assert cropped_shares(sizes, shapes) == pytest.approx([0.5, 1 / 3])
