"""Schedules: the draws that each rank receives at each step."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.errors import ConfigError
from stoker.pipeline.order.schedule import EpochCache, OrderedSteps


def test_ranks_interleave_within_the_global_batch() -> None:
    schedules = [OrderedSteps(20, 2, rank, 3) for rank in range(3)]
    assert [s.draws(0)[0].tolist() for s in schedules] == [[0, 3], [1, 4], [2, 5]]
    assert [s.draws(1)[0].tolist() for s in schedules] == [[6, 9], [7, 10], [8, 11]]


@pytest.mark.parametrize(
    ("last_batch", "steps", "last"),
    [
        ("drop", 3, ([12, 15], [True, True])),
        ("pad", 4, ([18, 1], [True, False])),
        ("partial", 4, ([18], [True])),
    ],
)
def test_a_short_last_batch_is_dropped_padded_or_partial(
    last_batch: str, steps: int, last: tuple[list[int], list[bool]]
) -> None:
    schedule = OrderedSteps(20, 2, 0, 3, last_batch)
    assert len(schedule) == steps
    draws, mask = schedule.draws(steps - 1)
    assert (draws.tolist(), mask.tolist()) == last
    assert draws.dtype == np.int64
    assert mask.dtype == np.bool_


def test_a_rank_can_receive_an_empty_last_batch() -> None:
    schedules = [OrderedSteps(4, 3, rank, 3) for rank in range(3)]
    assert [len(s) for s in schedules] == [1, 1, 1]
    assert [s.draws(0)[0].tolist() for s in schedules] == [[0, 3], [1], [2]]
    assert OrderedSteps(2, 1, 2, 3).draws(0)[0].tolist() == []


def test_padding_can_repeat_the_epoch_several_times() -> None:
    draws, mask = OrderedSteps(3, 8, last_batch="pad").draws(0)
    assert draws.tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert mask.tolist() == [True] * 3 + [False] * 5


def test_consumed_is_the_first_draw_that_remains() -> None:
    schedule = OrderedSteps(20, 2, 0, 3, start=1)
    assert [schedule.consumed(k) for k in range(5)] == [1, 7, 13, 19, 20]
    assert len(schedule) == 4
    assert len(OrderedSteps(20, 2, start=20)) == 0


def test_an_unknown_last_batch_is_refused() -> None:
    with pytest.raises(ConfigError, match="last_batch must be one of drop, pad, partial, found 'keep'"):
        OrderedSteps(20, 1, last_batch="keep")  # type: ignore[arg-type]


def test_the_cache_keeps_the_last_two_values() -> None:
    computed: list[int] = []
    cache: EpochCache[int, frozenset[int]] = EpochCache(kept=2)

    def make(key: int) -> frozenset[int]:
        computed.append(key)
        return frozenset([key])

    assert [min(cache.get(key, make)) for key in (1, 2, 1, 2, 3, 2, 3, 1)] == [1, 2, 1, 2, 3, 2, 3, 1]
    assert computed == [1, 2, 3, 1]
    used = cache.get(1, make)
    assert [min(cache.get(key, make)) for key in (4, 5, 1)] == [4, 5, 1]
    assert computed == [1, 2, 3, 1, 4, 5], "a value that is in use stays"
    assert used == {1}
