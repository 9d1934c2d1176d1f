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
from stoker.pipeline.order.draws import Balanced, MixedOrder, WeightedDraws, WeightedShuffle
from stoker.pipeline.order.epoch_order import FullShuffle, Order, Sequential, Stream
from stoker.pipeline.order.quotas import QuotaSchedule, apportion_draws
from stoker.pipeline.text.planning.batching_config import BatchingConfig
from stoker.pipeline.text.planning.planner import TextPlanner

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


def planner(order: Order, world_size: int, **options: Any) -> TextPlanner:
    given: dict[str, Any] = {
        "batch_size": None,
        "max_tokens": None,
        "batch_sampler": None,
        "buckets": None if options.keys() & {"pack", "batch_sampler"} else 3,
        "pad_multiple": 1,
        "pack": None,
        "max_sequences": None,
        "max_length": None,
        "too_long": "error",
        "shuffle": True,
        "samples_per_epoch": None,
        "seed": 3,
        "last_batch": "partial",
        "balance": None,
    }
    return TextPlanner(BatchingConfig(**{**given, **options}), LENGTHS, order, world_size)


def drawn(made: TextPlanner, epoch: int, plan: BatchPlan, first: int, last: int) -> list[int]:
    """Packed rows, or draws, of steps first..last-1 on all ranks."""
    return [int(row) for step in range(first, last) for row in plan.group(step)]


def tokens(made: TextPlanner, epoch: int, rows: list[int]) -> Counter[tuple[int, int]]:
    """How often each token of each sample is in draws or packed rows."""
    pieces = made.epoch(epoch).token_slices(np.array(rows, np.int64))
    each = zip(pieces.positions.tolist(), pieces.begins.tolist(), pieces.lengths[:, 0].tolist(), strict=True)
    return Counter((row, begin + place) for row, begin, length in each for place in range(length))


def expected(order: Order, epoch: int) -> Counter[tuple[int, int]]:
    rows = order.positions(epoch, np.arange(order.n)).tolist()
    return Counter((row, place) for row in rows for place in range(int(LENGTHS[row, 0])))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ORDERS)
def test_an_epoch_is_what_the_order_draws(name: str, mode: str) -> None:
    for world_size, last_batch, epoch in product((1, 4), ("partial", "pad"), (0, 5)):
        made = planner(ORDERS[name], world_size, last_batch=last_batch, **MODES[mode])
        plan = made.plan(epoch)
        assert tokens(made, epoch, drawn(made, epoch, plan, 0, len(plan))) == expected(ORDERS[name], epoch)


def stops(order: Order, before: int, after: int, options: dict[str, Any]) -> Iterator[tuple[list[int], int]]:
    """For a stop after every step: what is drawn before it and after it, and how much is left out."""
    first, second, epoch = planner(order, before, **options), planner(order, after, **options), 2
    plan = first.plan(epoch)
    whole = drawn(first, epoch, plan, 0, len(plan))
    for stop in range(len(plan) + 1):
        rest = second.plan(epoch, ((before, stop),))
        yield (
            whole[: len(drawn(first, epoch, plan, 0, stop))] + drawn(second, epoch, rest, 0, len(rest)),
            stop,
        )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["all", "weighted", "mixed", "stream of a mixture"])
def test_every_stop_on_every_other_number_of_ranks(name: str, mode: str) -> None:
    options = MODES[mode]
    for before, after in product(WORLDS, WORLDS):
        if before == after:
            continue
        made = planner(ORDERS[name], before, **options)
        number = len(made.epoch(2).sampler.lengths)
        for rows, stop in stops(ORDERS[name], before, after, options):
            assert sorted(rows) == list(range(number)), f"stopped at {stop}, from {before} to {after} ranks"


@pytest.mark.parametrize("mode", MODES)
def test_one_epoch_on_one_number_of_ranks_after_the_other(mode: str) -> None:
    order, options, epoch = ORDERS["mixed"], MODES[mode], 7
    history: tuple[tuple[int, int], ...] = ()
    rows: list[int] = []
    for world_size, steps in ((2, 2), (3, 1), (1, 4), (4, 99)):
        made = planner(order, world_size, **options)
        plan = made.plan(epoch, history)
        rows += drawn(made, epoch, plan, 0, min(steps, len(plan)))
        history = (*history, (world_size, steps))
    assert tokens(made, epoch, rows) == expected(order, epoch)


@pytest.mark.parametrize("last_batch", ["drop", "pad"])
@pytest.mark.parametrize("options", [{}, {"buckets": None}, {"pack": 31}])
@pytest.mark.parametrize("name", ORDERS)
def test_a_global_batch_is_the_same_on_any_number_of_ranks(
    name: str, options: dict[str, Any], last_batch: str
) -> None:
    def steps(world_size: int, epoch: int) -> list[list[int]]:
        made = planner(
            ORDERS[name], world_size, batch_size=12 // world_size, last_batch=last_batch, **options
        )
        plan = made.plan(epoch)
        return [plan.group(step).tolist() for step in range(len(plan))]

    for epoch in (0, 3):
        assert steps(1, epoch) == steps(2, epoch) == steps(3, epoch) == steps(4, epoch)


def test_a_stream_goes_through_its_epochs_one_after_the_other() -> None:
    base = ORDERS["mixed"]
    made = planner(Stream(base, 36), 2, batch_size=3)
    found = Counter()
    for epoch in range(5):
        plan = made.plan(epoch)
        found += tokens(made, epoch, drawn(made, epoch, plan, 0, len(plan)))
    assert found == sum((expected(base, epoch) for epoch in range(3)), Counter())


def test_shapes_are_those_of_every_epoch() -> None:
    for name, mode in product(ORDERS, MODES):
        for last_batch in ("drop", "pad"):
            made = planner(ORDERS[name], 2, last_batch=last_batch, **MODES[mode])
            if made.boundaries is not None:
                lasting = set(made.common_shapes)
                assert all(set(made.plan(epoch).shapes()) <= lasting for epoch in range(6))
                assert len(lasting) <= 3


def test_plans_of_equal_epochs_have_equal_numbers_of_batches() -> None:
    said = set()
    for name, mode, last_batch in product(ORDERS, MODES, ("partial", "drop", "pad")):
        made = planner(ORDERS[name], 2, last_batch=last_batch, **MODES[mode])
        if made.has_equal_epochs:
            said.add((name, mode, last_batch))
            assert len({len(made.plan(epoch)) for epoch in range(6)}) == 1
    assert ("weighted", "buckets", "pad") in said
    assert ("weighted", "buckets", "partial") not in said
    assert ("all", "packed by a budget", "partial") in said


def test_no_row_has_more_sequences_than_arrays_have_room_for() -> None:
    for order, most in product(ORDERS.values(), (None, 2)):
        made = planner(order, 1, batch_size=2, pack=31, max_sequences=most)
        packings = [made.epoch(epoch).packing for epoch in range(12)]
        assert max(int(np.diff(one.offsets).max()) for one in packings if one) <= made.max_sequences


def test_sequential_draws_stay_in_order_within_a_bucket() -> None:
    made = planner(Stream(Sequential(N), 20), 1, batch_size=4, buckets=1, shuffle=False)
    samples = [made.epoch(e).token_slices(made.plan(e).rows).positions.tolist() for e in range(3)]
    assert samples == [list(range(20)), list(range(20, 40)), [*range(40, 53), *range(7)]]


def test_rows_that_the_first_epoch_omits_have_a_shape() -> None:
    few = WeightedDraws(6, 3, np.ones(N))
    made = planner(few, 1, batch_size=1, buckets=6)
    assert made.epoch(0).sampler.lengths.max() < LENGTHS.max()
    shapes = {shape for epoch in range(40) for shape in made.plan(epoch).shapes()}
    assert max(width for _, width in shapes) == LENGTHS.max()
    assert len(shapes) > len(made.plan(0).shapes())
    assert shapes <= set(made.common_shapes)
