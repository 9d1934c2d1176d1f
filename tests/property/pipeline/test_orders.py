"""Orders of epochs and the shares of ranks, for any sizes, seeds, epochs and ranks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.pipeline.order.orders import (
    BlockShuffle,
    FullShuffle,
    Order,
    Permutation,
    Repeat,
    Sequential,
    Stream,
    WeightedDraws,
    WeightedShuffle,
    permute,
)
from stoker.pipeline.order.quotas import Balanced, MixedOrder, QuotaSchedule, apportion_draws
from stoker.pipeline.order.schedule import OrderedSteps

seeds = st.integers(-(2**80), 2**80)
epochs = st.integers(0, 2**40)


@st.composite
def orders(draw: st.DrawFn) -> Order:
    n = draw(st.integers(1, 700))
    seed = draw(seeds)
    block, window = draw(st.integers(1, 90)), draw(st.integers(1, 12))
    return draw(st.sampled_from([Sequential(n), FullShuffle(n, seed), BlockShuffle(n, seed, block, window)]))


@st.composite
def samplers(draw: st.DrawFn) -> Order:
    """Orders that may draw a sample several times, or not at all."""
    base, seed, n = draw(orders()), draw(seeds), draw(st.integers(1, 300))
    column = np.array(draw(st.lists(st.integers(1, 5), min_size=1, max_size=60)))
    times = draw(st.integers(1, 4))
    sizes = draw(st.lists(st.integers(1, 50), min_size=1, max_size=5))
    weights = draw(st.lists(st.integers(1, 9), min_size=len(sizes), max_size=len(sizes)))
    rounds = tuple(FullShuffle(size, seed + i) for i, size in enumerate(sizes))
    kinds = [
        WeightedDraws(n, seed, column),
        WeightedShuffle(min(n, len(column)), seed, column),
        Balanced(n, seed, column),
        Repeat(base, times, min(n, base.n * times)),
        MixedOrder(QuotaSchedule(apportion_draws(weights, n), np.array(sizes), seed), rounds),
    ]
    order = draw(st.sampled_from(kinds))
    return draw(st.sampled_from([order, Stream(order, draw(st.integers(1, 500)))]))


@given(n=st.integers(1, 5000), key=seeds)
def test_a_permutation_is_undone_by_its_inverse(n: int, key: int) -> None:
    permutation = Permutation(n, key)
    images = permutation(np.arange(n))
    assert np.array_equal(np.sort(images), np.arange(n))
    assert np.array_equal(permutation.inverse(images), np.arange(n))


@given(n=st.integers(1, 2**62), key=seeds, data=st.data())
def test_any_position_of_any_domain_is_mapped_inside_it(n: int, key: int, data: st.DataObject) -> None:
    positions = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=5))
    permutation = Permutation(n, key)
    images = permutation(positions)
    assert images.dtype == np.int64
    assert ((images >= 0) & (images < n)).all()
    assert permutation.inverse(images).tolist() == positions


@given(order=orders(), epoch=epochs)
def test_an_epoch_holds_every_sample_once(order: Order, epoch: int) -> None:
    assert np.array_equal(np.sort(order.positions(epoch, np.arange(order.n))), np.arange(order.n))


@given(sizes=st.lists(st.integers(1, 2**62), min_size=1, max_size=20), data=st.data())
def test_permutations_of_any_sizes_stay_within_them(sizes: list[int], data: st.DataObject) -> None:
    indices = np.array([data.draw(st.integers(0, size - 1)) for size in sizes])
    words = data.draw(st.lists(st.integers(0, 2**64 - 1), min_size=len(sizes), max_size=len(sizes)))
    images = permute(indices, np.array(sizes), np.array(words, np.uint64))
    assert ((images >= 0) & (images < sizes)).all()


@given(
    weights=st.lists(st.floats(0, 1e300, allow_subnormal=False), min_size=1, max_size=30).filter(any),
    n=st.integers(0, 10**6),
    seed=seeds,
    epoch=epochs,
)
def test_shares_are_exact_in_every_epoch(weights: list[float], n: int, seed: int, epoch: int) -> None:
    quotas = apportion_draws(weights, n)
    assert quotas.sum() == n
    exact = n * np.array(weights) / np.sum(np.array(weights) / 2) / 2
    assert (np.abs(quotas - exact) < 1 + 1e-6 * n).all()
    few = QuotaSchedule(apportion_draws(weights, n % 699 + 1), np.full(len(weights), 7), seed)
    turns = few.assign(epoch, np.arange(few.n))
    assert np.array_equal(np.bincount(turns.group, minlength=len(weights)), few.quotas)
    in_a_row = replace(few, spread=False).assign(epoch, np.arange(few.n))
    assert sorted(zip(*in_a_row, strict=True)) == sorted(zip(*turns, strict=True))


@given(order=st.one_of(orders(), samplers()), epoch=epochs, data=st.data())
def test_a_position_does_not_depend_on_other_queries(order: Order, epoch: int, data: st.DataObject) -> None:
    everything = order.positions(epoch, np.arange(order.n))
    some = np.array(data.draw(st.lists(st.integers(0, order.n - 1), min_size=1, max_size=30)))
    assert np.array_equal(order.positions(epoch, some), everything[some])


schedules = st.fixed_dictionaries(
    {
        "n": st.integers(1, 300),
        "batch_size": st.integers(1, 40),
        "world_size": st.integers(1, 9),
        "last_batch": st.sampled_from(["drop", "pad", "partial"]),
    }
)


def on_all_ranks(start: int, world_size: int, **options: object) -> list[OrderedSteps]:
    return [
        OrderedSteps(rank=rank, world_size=world_size, start=start, **options) for rank in range(world_size)
    ]


@settings(max_examples=100)
@given(options=schedules, data=st.data())
def test_all_ranks_together_cover_the_rest_exactly_once(
    options: dict[str, object], data: st.DataObject
) -> None:
    n = options["n"]
    start = data.draw(st.integers(0, n))
    ranks = on_all_ranks(start, **options)
    steps = {len(schedule) for schedule in ranks}
    assert len(steps) == 1, "every rank has the same number of steps"
    drawn = [schedule.draws(step) for schedule in ranks for step in range(len(schedule))]
    real = np.sort(np.concatenate([[], *(positions[mask] for positions, mask in drawn)]))
    left = n - start
    if options["last_batch"] == "drop":
        left -= left % ranks[0].global_batch
    assert real.tolist() == list(range(start, start + left))
    if options["last_batch"] != "partial":
        assert {len(positions) for positions, _ in drawn} <= {options["batch_size"]}
    assert all(((positions >= 0) & (positions < n)).all() for positions, _ in drawn)


@given(n=st.integers(1, 300), batch=st.integers(1, 12), data=st.data())
def test_a_global_batch_does_not_depend_on_the_number_of_ranks(
    n: int, batch: int, data: st.DataObject
) -> None:
    worlds = [w for w in (1, 2, 3, 4, 6, 12) if (12 * batch) % w == 0]
    world = data.draw(st.sampled_from(worlds))
    alone = OrderedSteps(n, 12 * batch)
    many = on_all_ranks(0, world, n=n, batch_size=12 * batch // world, last_batch="partial")
    for step in range(len(alone)):
        shared = np.concatenate([schedule.draws(step)[0] for schedule in many])
        assert sorted(shared) == alone.draws(step)[0].tolist()
