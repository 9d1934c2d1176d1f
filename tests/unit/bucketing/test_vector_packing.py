"""Packing of samples with several fields: capacities, rows, fill and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.bucketing import pack, report_plan


def pairs(count: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.random.default_rng(seed).integers(1, 60, (count, 2))


@given(
    lengths=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 20)), min_size=1, max_size=40),
    most=st.none() | st.integers(1, 4),
    seed=st.none() | st.integers(0, 5),
)
def test_every_sample_has_one_row_that_has_room_in_each_field(
    lengths: list[tuple[int, int]], most: int | None, seed: int | None
) -> None:
    plan = pack(lengths, (10, 24), max_sequences=most, seed=seed)
    assert sorted(plan.rows.tolist()) == list(range(len(lengths)))
    assert (plan.lengths == np.array(lengths)[plan.rows]).all()
    assert (plan.filled <= [10, 24]).all()
    assert plan.least <= len(plan)
    assert most is None or np.diff(plan.offsets).max() <= most


@pytest.mark.parametrize(
    ("capacity", "most"), [((512, 512), 1.03), ((1024, 100), 1.03), ((1024, 512), 1.03), ((2048, 800), 1.02)]
)
def test_rows_are_nearly_as_few_as_the_fullest_field_allows(capacity: tuple[int, int], most: float) -> None:
    rng = np.random.default_rng(0)
    nearly_one_length = np.stack([rng.integers(230, 257, 8000), rng.integers(5, 43, 8000)], axis=1)
    lengths = nearly_one_length if capacity[1] == 100 else pairs(8000) * [4, 1 + 2 * (capacity[1] == 800)]
    plan = pack(lengths, capacity, seed=1)
    assert len(plan) <= most * plan.least
    assert report_plan(plan, lengths).fill == pytest.approx(100 * plan.efficiency)
