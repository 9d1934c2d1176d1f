"""Quotas: apportionment, and the sequence of groups that follows it."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from stoker.errors import ConfigError
from stoker.pipeline.order.quotas import QuotaSchedule, apportion_draws


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
        # Hamilton's method: a textbook example with 100 seats.
        ([47_000, 16_000, 15_900, 12_000, 6_000, 3_100], 10, [5, 2, 1, 1, 1, 0]),
    ],
)
def test_draws_are_apportioned_by_the_largest_remainders(
    weights: list[float], n: int, expected: list[int]
) -> None:
    assert apportion_draws(weights, n).tolist() == expected


@pytest.mark.parametrize(
    "weights",
    [[], [0, 0], [1, -1], [float("nan"), 1], [float("inf"), 1]],
    ids=["none", "0", "-1", "nan", "inf"],
)
def test_refuses_impossible_weights(weights: list[float]) -> None:
    with pytest.raises(ConfigError, match="weights must be numbers from 0"):
        apportion_draws(weights, 5)


def make_schedule(weights: list[float], n: int, sizes: list[int], seed: int = 3) -> QuotaSchedule:
    return QuotaSchedule(apportion_draws(weights, n), np.array(sizes), seed)


def test_shares_are_near_their_quotas_up_to_any_draw() -> None:
    schedule = make_schedule([6, 3, 1], 5000, [5000, 5000, 5000])
    group = schedule.assign(0, np.arange(5000)).group
    assert np.bincount(group).tolist() == [3000, 1500, 500]
    for number, share in enumerate([0.6, 0.3, 0.1]):
        error = np.cumsum(group == number) - share * np.arange(1, 5001)
        assert np.abs(error).max() < 12, "independent draws would be off by some 35 to 70"


def test_blocks_have_each_of_many_groups_once() -> None:
    schedule = make_schedule([1.0] * 100, 1000, [10] * 100)
    group = schedule.assign(4, np.arange(1000)).group.reshape(10, 100)
    assert (np.sort(group, axis=1) == np.arange(100)).all()
    assert len({tuple(block) for block in group.tolist()}) == 10, "each time in another order"


@pytest.mark.parametrize("epoch", [0, 3, 2**65])
def test_cycles_continue_in_the_next_epoch(epoch: int) -> None:
    schedule = make_schedule([2, 1], 30, [7, 100])
    for group, (quota, size) in enumerate([(20, 7), (10, 100)]):
        cycles: list[Any] = []
        for number in (epoch, epoch + 1):
            drawn = schedule.assign(number, np.arange(30))
            of_group = drawn.group == group
            cycles += sorted(
                zip(drawn.cycle[of_group].tolist(), drawn.offset[of_group].tolist(), strict=True)
            )
        first = epoch * quota
        expected = [divmod(t, size) for t in range(first, first + 2 * quota)]
        assert cycles == [(cycle % 2**62, offset) for cycle, offset in expected]


def test_the_cost_of_a_draw_does_not_depend_on_the_length_of_the_epoch() -> None:
    n = 10**13
    schedule = make_schedule([7, 3], n, [10**9, 10**9])
    drawn = schedule.assign(5, np.arange(n - 4096, n))
    assert abs((drawn.group == 0).mean() - 0.7) < 0.05
    assert drawn.offset.max() < 10**9


def test_groups_do_not_change_between_versions() -> None:
    drawn = make_schedule([5, 0, 2, 1], 777, [40, 1, 30, 900], seed=-(2**70)).assign(2**65, np.arange(777))
    digest = hashlib.sha256(np.concatenate(drawn).astype("<i8").tobytes()).hexdigest()[:16]
    assert digest == "23ea3cb72f016c58"
