"""Exact shares: apportionment, and the sequence of groups that keeps to it."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from stoker.errors import ConfigError
from stoker.pipeline.order.quotas import QuotaSchedule, apportion


@pytest.mark.parametrize(
    ("weights", "n", "expected"),
    [
        ([1, 1], 10, [5, 5]),
        ([1, 1, 1], 10, [4, 3, 3]),
        ([0.7, 0.3], 10, [7, 3]),
        ([3, 0, 1], 4, [3, 0, 1]),
        ([1, 1000], 10, [0, 10]),
        ([1e-300, 1e300], 3, [0, 3]),
        ([0.1] * 10, 10, [1] * 10),
        ([1e308] * 4, 8, [2] * 4),
        ([1, 2], 3 * 10**17 + 3, [10**17 + 1, 2 * 10**17 + 2]),
        ([1], 0, [0]),
        # Hamilton's method, an example of the literature: 100 seats for these votes.
        ([47_000, 16_000, 15_900, 12_000, 6_000, 3_100], 10, [5, 2, 1, 1, 1, 0]),
    ],
)
def test_allot(weights: list[float], n: int, expected: list[int]) -> None:
    assert apportion(weights, n).tolist() == expected


@pytest.mark.parametrize(
    "weights",
    [[], [0, 0], [1, -1], [float("nan"), 1], [float("inf"), 1]],
    ids=["none", "0", "-1", "nan", "inf"],
)
def test_allot_refuses(weights: list[float]) -> None:
    with pytest.raises(ConfigError, match="weights must be numbers from 0"):
        apportion(weights, 5)


def shares(weights: list[float], n: int, sizes: list[int], seed: int = 3) -> QuotaSchedule:
    return QuotaSchedule(apportion(weights, n), np.array(sizes), seed)


def test_up_to_any_position_shares_are_near() -> None:
    made = shares([6, 3, 1], 5000, [5000, 5000, 5000])
    group = made.assign(0, np.arange(5000)).group
    assert np.bincount(group).tolist() == [3000, 1500, 500]
    for number, share in enumerate([0.6, 0.3, 0.1]):
        error = np.cumsum(group == number) - share * np.arange(1, 5001)
        assert np.abs(error).max() < 12, "independent draws would be off by some 35 to 70"


def test_blocks_hold_each_of_many_groups_once() -> None:
    made = shares([1.0] * 100, 1000, [10] * 100)
    group = made.assign(4, np.arange(1000)).group.reshape(10, 100)
    assert (np.sort(group, axis=1) == np.arange(100)).all()
    assert len({tuple(block) for block in group.tolist()}) == 10, "each time in another order"


def test_rare_groups_are_spread_over_the_epoch() -> None:
    made = shares([900, *[1.0] * 100], 1000, [1] * 101)
    group = made.assign(0, np.arange(1000)).group
    rare = np.flatnonzero(group > 0)
    # The mean of 100 uniform places has a standard deviation of 29.
    assert abs(rare.mean() - 500) < 100


def test_a_stride_of_ranks_does_not_meet_one_group_only() -> None:
    group = shares([1, 1], 6400, [1, 1]).assign(0, np.arange(6400)).group
    for world_size in (2, 4, 8, 64):
        part = group[::world_size].mean()
        # Independent draws would have a standard deviation of 0.5 / sqrt(draws).
        assert abs(part - 0.5) < 4 * 0.5 / np.sqrt(6400 / world_size)


@pytest.mark.parametrize("epoch", [0, 3, 2**65])
def test_rounds_go_on_from_epoch_to_epoch(epoch: int) -> None:
    made = shares([2, 1], 30, [7, 100])
    for group, (quota, size) in enumerate([(20, 7), (10, 100)]):
        drawn: list[Any] = []
        for one in (epoch, epoch + 1):
            turns = made.assign(one, np.arange(30))
            mine = turns.group == group
            order = np.lexsort((turns.offset[mine], turns.cycle[mine]))
            drawn += list(
                zip(turns.cycle[mine][order].tolist(), turns.offset[mine][order].tolist(), strict=True)
            )
        first = epoch * quota
        expected = [divmod(t, size) for t in range(first, first + 2 * quota)]
        assert drawn == [(lap % 2**62, place) for lap, place in expected]


@pytest.mark.parametrize("weights", [[1, 1], [6, 3, 1], [1.0] * 40, [50, *[1.0] * 40]], ids=len)
def test_a_position_alone_is_what_it_is_among_others(weights: list[float]) -> None:
    made = shares(weights, 700, [9] * len(weights))
    everything = made.assign(1, np.arange(700))
    alone = [made.assign(1, np.array([position])) for position in range(700)]
    for column, values in enumerate(everything):
        assert values.tolist() == [int(turns[column][0]) for turns in alone]


def test_a_position_costs_what_it_costs_however_long_the_epoch() -> None:
    n = 10**13
    made = shares([7, 3], n, [10**9, 10**9])
    turns = made.assign(5, np.arange(n - 4096, n))
    assert abs((turns.group == 0).mean() - 0.7) < 0.05
    assert turns.offset.max() < 10**9


def test_sequences_are_those_of_every_version() -> None:
    turns = shares([5, 0, 2, 1], 777, [40, 1, 30, 900], seed=-(2**70)).assign(2**65, np.arange(777))
    digest = hashlib.sha256(np.concatenate(turns).astype("<i8").tobytes()).hexdigest()[:16]
    assert digest == "23ea3cb72f016c58"
