"""Text drawn by a sampler, a mixture or a stream, stopped anywhere and resumed on any number of ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

from stoker.bucketing import BatchPlan, SortedBucketSampler
from stoker.pipeline.order.orders import (
    FullShuffle,
    Order,
    Sequential,
    Stream,
    WeightedDraws,
    WeightedShuffle,
)
from stoker.pipeline.order.quotas import Balanced, MixedOrder, QuotaSchedule, apportion_draws
from stoker.pipeline.text.batching import BatchingConfig
from stoker.pipeline.text.planner import TextPlanner

N = 53
LENGTHS = 1 + np.arange(N)[:, None] * 17 % 30
WORLDS = (1, 2, 3, 4)
COLUMN = np.arange(N) % 5 + 1
MIXED = MixedOrder(
    QuotaSchedule(apportion_draws([5, 2], 60), np.array([N - 9, 9]), 3),
    (FullShuffle(N - 9, 3), FullShuffle(9, 4)),
)
ORDERS: dict[str, Order] = {
    "all": FullShuffle(N, 3),
    "weighted": WeightedDraws(60, 3, COLUMN),
    "weighted, each once": WeightedShuffle(40, 3, COLUMN),
    "classes balanced": Balanced(60, 3, COLUMN),
    "mixed": MIXED,
    "stream": Stream(FullShuffle(N, 3), 70),
    "stream of a mixture": Stream(MIXED, 40),
}
MODES: dict[str, dict[str, Any]] = {
    "buckets": {"batch_size": 3},
    "budget": {"max_tokens": 64},
    "random": {"batch_size": 3, "buckets": None},
    "packed": {"batch_size": 2, "pack": 31},
    "packed by a budget": {"max_tokens": 64, "pack": 16, "too_long": "split"},
    "packed, few to a row": {"batch_size": 2, "pack": 31, "max_sequences": 2},
    "sorted windows": {"batch_sampler": partial(SortedBucketSampler, batch_size=3, window=3)},
    "in order": {"batch_size": 3, "shuffle": False},
    "balanced": {"batch_size": 3, "balance": "attention"},
}


def make_planner(order: Order, world_size: int, **options: Any) -> TextPlanner:
    buckets = None if options.keys() & {"pack", "batch_sampler"} else 3
    arguments: dict[str, Any] = {"buckets": buckets, "shuffle": True, "seed": 3}
    return TextPlanner(BatchingConfig(**{**arguments, **options}), LENGTHS, order, world_size)


def drawn(plan: BatchPlan, steps: int | None = None) -> list[int]:
    """Packed rows, or draws, of the first steps on all ranks."""
    return [int(row) for step in range(len(plan))[:steps] for row in plan.group(step)]


def tokens(planner: TextPlanner, epoch: int, rows: list[int]) -> Counter[tuple[int, int]]:
    """How often each token of each sample is in draws or packed rows."""
    pieces = planner.epoch(epoch).token_slices(np.array(rows, np.int64))
    each = zip(pieces.positions.tolist(), pieces.begins.tolist(), pieces.lengths[:, 0].tolist(), strict=True)
    return Counter((row, begin + offset) for row, begin, length in each for offset in range(length))


def expected(order: Order, epoch: int) -> Counter[tuple[int, int]]:
    rows = order.positions(epoch, np.arange(order.n)).tolist()
    return Counter((row, offset) for row in rows for offset in range(int(LENGTHS[row, 0])))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ORDERS)
def test_an_epoch_is_what_the_order_draws(name: str, mode: str) -> None:
    for world_size, last_batch, epoch in product((1, 4), ("partial", "pad"), (0, 5)):
        planner = make_planner(ORDERS[name], world_size, last_batch=last_batch, **MODES[mode])
        plan = planner.plan(epoch)
        assert tokens(planner, epoch, drawn(plan)) == expected(ORDERS[name], epoch)


def stops(order: Order, before: int, after: int, options: dict[str, Any]) -> Iterator[tuple[list[int], int]]:
    """For a stop after every step: what is drawn before it and after it, and the step."""
    first, second = make_planner(order, before, **options), make_planner(order, after, **options)
    plan = first.plan(2)
    for stop in range(len(plan) + 1):
        yield drawn(plan, stop) + drawn(second.plan(2, ((before, stop),))), stop


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["all", "weighted", "mixed", "stream of a mixture"])
def test_every_stop_and_resume_on_other_ranks_draws_each_row_once(name: str, mode: str) -> None:
    options = MODES[mode]
    for before, after in product(WORLDS, WORLDS):
        if before == after:
            continue
        planner = make_planner(ORDERS[name], before, **options)
        number = len(planner.epoch(2).sampler.lengths)
        for rows, stop in stops(ORDERS[name], before, after, options):
            assert sorted(rows) == list(range(number)), f"stopped at {stop}, from {before} to {after} ranks"


@pytest.mark.parametrize("mode", MODES)
def test_an_epoch_on_four_numbers_of_ranks_in_turn_draws_each_token_once(mode: str) -> None:
    order, options, epoch = ORDERS["mixed"], MODES[mode], 7
    history: tuple[tuple[int, int], ...] = ()
    rows: list[int] = []
    for world_size, steps in ((2, 2), (3, 1), (1, 4), (4, 99)):
        planner = make_planner(order, world_size, **options)
        plan = planner.plan(epoch, history)
        rows += drawn(plan, steps)
        history = (*history, (world_size, steps))
    assert tokens(planner, epoch, rows) == expected(order, epoch)


@pytest.mark.parametrize("last_batch", ["drop", "pad"])
@pytest.mark.parametrize("options", [{}, {"buckets": None}, {"pack": 31}])
@pytest.mark.parametrize("name", ORDERS)
def test_a_global_batch_is_the_same_on_any_number_of_ranks(
    name: str, options: dict[str, Any], last_batch: str
) -> None:
    def steps(world_size: int, epoch: int) -> list[list[int]]:
        planner = make_planner(
            ORDERS[name], world_size, batch_size=12 // world_size, last_batch=last_batch, **options
        )
        plan = planner.plan(epoch)
        return [plan.group(step).tolist() for step in range(len(plan))]

    for epoch in (0, 3):
        assert steps(1, epoch) == steps(2, epoch) == steps(3, epoch) == steps(4, epoch)


def test_a_stream_goes_through_its_epochs_one_after_the_other() -> None:
    base = ORDERS["mixed"]
    planner = make_planner(Stream(base, 36), 2, batch_size=3)
    found = Counter()
    for epoch in range(5):
        plan = planner.plan(epoch)
        found += tokens(planner, epoch, drawn(plan))
    assert found == sum((expected(base, epoch) for epoch in range(3)), Counter())


def test_common_shapes_hold_the_shapes_of_every_epoch() -> None:
    for name, mode in product(ORDERS, MODES):
        for last_batch in ("drop", "pad"):
            planner = make_planner(ORDERS[name], 2, last_batch=last_batch, **MODES[mode])
            if planner.boundaries is not None:
                common = set(planner.common_shapes)
                assert all(set(planner.plan(epoch).shapes()) <= common for epoch in range(6))
                assert len(common) <= 3


def test_plans_of_equal_epochs_have_equal_numbers_of_batches() -> None:
    equal = set()
    for name, mode, last_batch in product(ORDERS, MODES, ("partial", "drop", "pad")):
        planner = make_planner(ORDERS[name], 2, last_batch=last_batch, **MODES[mode])
        if planner.has_equal_epochs:
            equal.add((name, mode, last_batch))
            assert len({len(planner.plan(epoch)) for epoch in range(6)}) == 1
    assert ("weighted", "buckets", "pad") in equal
    assert ("weighted", "buckets", "partial") not in equal
    assert ("all", "packed by a budget", "partial") in equal


def test_no_row_has_more_sequences_than_arrays_have_room_for() -> None:
    for order, most in product(ORDERS.values(), (None, 2)):
        planner = make_planner(order, 1, batch_size=2, pack=31, max_sequences=most)
        packings = [planner.epoch(epoch).packing for epoch in range(12)]
        assert (
            max(int(np.diff(packing.offsets).max()) for packing in packings if packing)
            <= planner.max_sequences
        )


def test_sequential_draws_stay_in_order_within_a_bucket() -> None:
    planner = make_planner(Stream(Sequential(N), 20), 1, batch_size=4, buckets=1, shuffle=False)
    samples = [planner.epoch(e).token_slices(planner.plan(e).rows).positions.tolist() for e in range(3)]
    assert samples == [list(range(20)), list(range(20, 40)), [*range(40, 53), *range(7)]]


def test_rows_that_the_first_epoch_omits_have_a_shape() -> None:
    few = WeightedDraws(6, 3, np.ones(N))
    planner = make_planner(few, 1, batch_size=1, buckets=6)
    assert planner.epoch(0).sampler.lengths.max() < LENGTHS.max()
    shapes = {shape for epoch in range(40) for shape in planner.plan(epoch).shapes()}
    assert max(width for _, width in shapes) == LENGTHS.max()
    assert len(shapes) > len(planner.plan(0).shapes())
    assert shapes <= set(planner.common_shapes)
