"""Packing of one field: efficiency, the lower bound, too long sequences and plans in files."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.benchmarks.text.gsm8k import gsm8k_lengths
from stoker.bucketing import PackingPlan, pack, report_plan
from stoker.bucketing.packing import least_bins
from stoker.errors import ConfigError, DatasetError

ANSWER = gsm8k_lengths("answer")


def best_fit_one_by_one(lengths, capacity, max_sequences=None):
    """Return the tokens of each bin, packed sequence by sequence."""
    bins: list[list[int]] = []
    for length in sorted(lengths, reverse=True):
        fits = [
            one
            for one in bins
            if sum(one) + length <= capacity and (max_sequences is None or len(one) < max_sequences)
        ]
        if fits:
            max(fits, key=sum).append(length)
        else:
            bins.append([length])
    return sorted(sum(one) for one in bins)


def l2_as_written(lengths, capacity):
    """Return the bound L2 of Martello and Toth, threshold by threshold."""
    best = 0
    for t in range(capacity // 2 + 1):
        large = [x for x in lengths if x > capacity - t]
        medium = [x for x in lengths if capacity - t >= x > capacity / 2]
        small = [x for x in lengths if capacity / 2 >= x >= t]
        rest = sum(small) - (len(medium) * capacity - sum(medium))
        best = max(best, len(large) + len(medium) + max(0, -(-rest // capacity)))
    return best


def test_gsm8k_is_packed_nearly_as_well_as_the_bound_allows():
    plan = pack(ANSWER, 256)
    assert (len(plan), plan.least) == (1513, 1510)
    assert round(100 * plan.efficiency, 2) == 99.77
    assert np.sort(plan.rows).tolist() == list(range(len(ANSWER)))
    assert (ANSWER[plan.rows] == plan.lengths).all()
    assert plan.filled.max() <= 256
    assert not plan.begins.any()


@pytest.mark.parametrize("capacity", [216, 256, 1000])
def test_the_histogram_packs_as_one_by_one(capacity):
    some = ANSWER[:600]
    assert sorted(pack(some, capacity).filled.tolist()) == best_fit_one_by_one(some.tolist(), capacity)


@pytest.mark.parametrize("seed", range(5))
def test_l2_is_martello_and_toths(seed):
    rng = np.random.default_rng(seed)
    capacity = int(rng.integers(5, 40))
    lengths = rng.integers(1, capacity + 1, 30)
    assert least_bins(np.bincount(lengths, minlength=capacity + 1)) == l2_as_written(
        lengths.tolist(), capacity
    )


def test_what_is_too_long_is_split():
    plan = pack([1, 12, 3], 5, too_long="split")
    pieces = sorted(zip(plan.rows.tolist(), plan.begins.tolist(), plan.lengths.tolist(), strict=True))
    assert pieces == [(0, 0, 1), (1, 0, 5), (1, 5, 5), (1, 10, 2), (2, 0, 3)]
    assert plan.lengths.sum() == 16


def test_a_seed_gives_new_partners_at_the_same_efficiency():
    plain, first, second = pack(ANSWER, 256), pack(ANSWER, 256, seed=1), pack(ANSWER, 256, seed=1, epoch=1)

    def partners(plan):
        return {frozenset(plan.rows[a:b].tolist()) for a, b in pairwise(plan.offsets.tolist())}

    assert len(first) == len(second) == len(plain)
    assert partners(first) == partners(pack(ANSWER, 256, seed=1))
    assert len(partners(first) & partners(second)) < len(first) / 5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pack([1, 5, 7], 5), "row 2 has 7 tokens, more than the capacity of 5"),
        (lambda: pack([3, 0], 5), "row 1 is empty"),
        (lambda: pack([[1, 2]], (5,)), "2 lengths of each sample, and 1 capacities"),
        (lambda: pack([[1, 2]], (9, 0)), "capacity must be at least 1"),
        (lambda: pack([(1, 2), (5, 6)], (4, 9)), "row 1 has 5, 6 tokens, more than the capacity of 4, 9"),
        (lambda: pack([(1, 2)], 9, too_long="split"), "takes one field"),
        (lambda: pack([(1, 2), (0, 0)], 9), "row 1 is empty"),
        (lambda: pack([1], 0), "capacity must be at least 1"),
        (lambda: pack([1], 5, max_sequences=0), "max_sequences must be at least 1"),
        (lambda: pack([1], 5, too_long="drop"), "too_long must be one of"),
        (lambda: pack([1], 5, seed=-1), "seed"),
        (lambda: pack([1], 5).pieces(1), "packed_row must be at most 0"),
    ],
)
def test_wrong_arguments_are_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize(
    ("lengths", "capacity"), [(ANSWER, 100), (np.stack([ANSWER, ANSWER[::-1]], axis=1), (300, 400))]
)
def test_a_plan_survives_a_file(tmp_path, lengths, capacity):
    plan = pack(lengths, capacity, too_long="error" if lengths.ndim > 1 else "split")
    plan.save(tmp_path / "plan.npz")
    loaded = PackingPlan.load(tmp_path / "plan.npz")
    for name in ("rows", "begins", "lengths", "offsets"):
        assert getattr(loaded, name).tolist() == getattr(plan, name).tolist()
    assert (loaded.capacity, loaded.least) == (capacity, plan.least)
    assert (loaded.lengths[loaded.pieces(3)].sum(axis=0) == loaded.filled[3]).all()


def test_a_file_that_is_no_plan_is_refused(tmp_path):
    path = tmp_path / "plan.npz"
    for write in (
        lambda: path.write_bytes(b"not a plan"),
        lambda: np.savez(path, rows=np.arange(3)),
        lambda: np.savez(path, rows=np.array([{"a": 1}], dtype=object)),
    ):
        write()
        with pytest.raises(DatasetError, match="not a packing plan"):
            PackingPlan.load(path)


@pytest.mark.parametrize(
    "change",
    [
        {"offsets": np.array([0, 1])},
        {"offsets": np.array([1, 2, 3])},
        {"offsets": np.array([0, 2, 1, 3])},
        {"rows": np.array([0, 1])},
        {"rows": np.array([-1, 1, 2])},
        {"lengths": np.array([200, 200, 3])},
        {"capacity": np.array(2)},
    ],
)
def test_a_plan_that_contradicts_itself_is_refused(tmp_path, change):
    plan = {
        "rows": np.arange(3),
        "begins": np.zeros(3, int),
        "lengths": np.array([4, 4, 2]),
        "offsets": np.array([0, 1, 3]),
        "capacity": np.array(10),
        "least": np.array(1),
    }
    np.savez(tmp_path / "plan.npz", **plan)
    PackingPlan.load(tmp_path / "plan.npz")
    np.savez(tmp_path / "plan.npz", **plan | change)
    with pytest.raises(DatasetError, match="contradicts itself"):
        PackingPlan.load(tmp_path / "plan.npz")


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
