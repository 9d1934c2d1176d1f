"""Packing of samples with several fields: capacities, rows, fill and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.bucketing import PackingPlan, pack, report_plan
from stoker.errors import ConfigError


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


def test_a_plan_of_several_fields_is_kept_in_a_file(tmp_path: Path) -> None:
    plan = pack(pairs(50), (100, 200))
    plan.save(tmp_path / "plan.npz")
    loaded = PackingPlan.load(tmp_path / "plan.npz")
    assert loaded.capacity == (100, 200)
    assert (loaded.lengths == plan.lengths).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"capacity": (9, 9, 9)}, "2 lengths of each sample, and 3 capacities"),
        ({"capacity": (9, 0)}, "at least 1"),
        ({"capacity": (4, 9)}, r"row 1 has 5, 6 tokens"),
        ({"capacity": 9, "too_long": "split"}, "takes one field"),
        ({"capacity": 9, "lengths": [(1, 2), (0, 0)]}, "row 1 is empty"),
    ],
)
def test_what_cannot_be_packed_is_named(arguments: dict[str, Any], message: str) -> None:
    given_arguments = {"lengths": [(1, 2), (5, 6)], **arguments}
    with pytest.raises(ConfigError, match=message):
        pack(given_arguments.pop("lengths"), **given_arguments)
