"""Samplers by length: every sample once, equal ranks, budgets, resuming, and randomness."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from stoker.benchmarks.text.gsm8k import gsm8k_lengths
from stoker.bucketing import FixedBucketSampler, SortedBucketSampler, TokenBudgetSampler, bucket_boundaries
from stoker.errors import CheckpointError, ConfigError

ANSWER = gsm8k_lengths("answer")
EDGES = bucket_boundaries(ANSWER, 8)


def handed_out(plan):
    rows = [
        plan.batch(step, rank).rows[plan.mask(step, rank)]
        for step in range(len(plan))
        for rank in range(plan.world_size)
    ]
    return np.concatenate(rows)


def samplers(**options):
    yield FixedBucketSampler(ANSWER, EDGES, 32, **options)
    yield FixedBucketSampler(ANSWER, EDGES, 32, ratio=0.5, pad_to="batch", **options)
    yield SortedBucketSampler(ANSWER, 32, window=10, **options)
    yield TokenBudgetSampler(ANSWER, 4096, EDGES, **options)
    yield TokenBudgetSampler(ANSWER, 4096, window=1000, batch_multiple=4, **options)


@pytest.mark.parametrize("world_size", [1, 3, 8])
@pytest.mark.parametrize("last_batch", ["pad", "partial"])
def test_no_sample_is_lost_or_repeated(world_size, last_batch):
    for sampler in samplers(world_size=world_size, last_batch=last_batch):
        assert np.sort(handed_out(sampler.plan(1))).tolist() == list(range(len(ANSWER)))


@pytest.mark.parametrize("world_size", [1, 8])
def test_drop_loses_less_than_one_group(world_size):
    for sampler in samplers(world_size=world_size, last_batch="drop"):
        plan = sampler.plan(1)
        rows = handed_out(plan)
        assert len(np.unique(rows)) == len(rows)
        lost = np.setdiff1d(np.arange(len(ANSWER)), rows)
        budget = isinstance(sampler, TokenBudgetSampler)
        size = sampler.batch_size(int(ANSWER[lost].max())) if budget else plan.sizes.max() // world_size
        assert len(lost) < size * world_size
        assert (plan.valid == plan.sizes).all()


@pytest.mark.parametrize("last_batch", ["drop", "pad", "partial"])
def test_ranks_agree_on_shape_and_every_sample_fits(last_batch):
    for sampler in samplers(world_size=8, last_batch=last_batch, balance="tokens"):
        plan = sampler.plan(2)
        for step in range(len(plan)):
            batches = [plan.batch(step, rank) for rank in range(8)]
            assert len({batch.shape for batch in batches}) == 1
            assert all(len(batch.rows) == batch.shape[0] for batch in batches)
            assert max(ANSWER[batch.rows].max() for batch in batches) <= batches[0].shape[1]


def test_only_one_group_repeats_rows():
    pad = FixedBucketSampler(ANSWER, EDGES, 32, world_size=8, last_batch="pad").plan()
    partial = FixedBucketSampler(ANSWER, EDGES, 32, world_size=8).plan()
    assert (pad.valid < pad.sizes).sum() == (partial.valid < partial.sizes).sum() == 1
    assert (partial.sizes - partial.valid).sum() < 8
    assert {shape[0] for shape in pad.shapes()} == {32}


def test_all_ranks_share_the_last_group():
    ten = np.full(10, 5)
    plan = FixedBucketSampler(ten, np.array([5]), 8, world_size=4).plan()
    assert plan.shapes() == [(3, 5)]
    assert (plan.valid.tolist(), plan.sizes.tolist()) == ([10], [12])


def test_shapes_are_the_same_every_epoch_and_few():
    sampler = FixedBucketSampler(ANSWER, EDGES, 32, last_batch="pad")
    first, second = sampler.plan(0), sampler.plan(1)
    assert first.shapes() == second.shapes() == [(32, edge) for edge in EDGES.boundaries.tolist()]
    assert len(first) == len(second)
    seen = {first.batch(step).shape for step in range(len(first))}
    assert seen == set(first.shapes())


def test_batches_keep_the_budget_and_the_multiples():
    edges = TokenBudgetSampler(ANSWER, 4096, EDGES, batch_multiple=8, max_batch_size=96, last_batch="drop")
    for n, length in edges.plan().shapes():
        assert n * length <= 4096
        assert n % 8 == 0
        assert n <= 96
    windows = TokenBudgetSampler(ANSWER, 4096, world_size=2, pad_to_multiple_of=8).plan()
    assert (windows.sizes // 2 * windows.lengths[:, 0] <= 4096).all()
    assert (windows.lengths % 8 == 0).all()


def test_a_budget_over_all_samples_makes_the_fewest_batches():
    lengths = np.array([5, 5, 5, 5, 2, 2, 2, 2, 2])
    # 10 tokens: pairs of 5s, five 2s; every batch with a 5 holds two samples at most.
    assert len(TokenBudgetSampler(lengths, 10).plan()) == 3


def batches_of(plan):
    return {frozenset(plan.group(step).tolist()) for step in range(len(plan))}


def test_membership_is_fresh_frozen_or_ordered():
    fresh = FixedBucketSampler(ANSWER, EDGES, 32)
    assert len(batches_of(fresh.plan(0)) & batches_of(fresh.plan(1))) < 3
    frozen = FixedBucketSampler(ANSWER, EDGES, 32, membership="frozen")
    assert batches_of(frozen.plan(0)) == batches_of(frozen.plan(1))
    assert frozen.plan(0).starts.tolist() != frozen.plan(1).starts.tolist()
    ordered = FixedBucketSampler(ANSWER, EDGES, 32, membership="ordered", shuffle=False).plan(3)
    assert (np.diff(ordered.batch(0).rows) > 0).all()
    assert (np.diff(ordered.lengths[:, 0]) >= 0).all()


def test_a_plan_is_a_function_of_seed_and_epoch():
    for one, same, other in zip(samplers(seed=7), samplers(seed=7), samplers(seed=8), strict=True):
        assert one.plan(3).rows.tolist() == same.plan(3).rows.tolist()
        assert one.plan(3).starts.tolist() == same.plan(3).starts.tolist()
        assert one.plan(3).rows.tolist() != other.plan(3).rows.tolist()
        assert one.plan(3).rows.tolist() != one.plan(4).rows.tolist()


def test_a_plan_is_that_of_every_version():
    # Raw Philox words sorted: the same on every machine and under every NumPy version.
    plan = FixedBucketSampler(np.arange(1, 13), np.array([6, 12]), 3, seed=1).plan(2)
    assert [plan.batch(step).rows.tolist() for step in range(4)] == [
        [9, 7, 6],
        [3, 1, 5],
        [2, 0, 4],
        [10, 8, 11],
    ]


@pytest.mark.parametrize("balance", ["tokens", "attention"])
def test_balance_evens_out_the_ranks(balance):
    power = {"tokens": 1, "attention": 2}[balance]
    plain = FixedBucketSampler(ANSWER, EDGES, 32, world_size=8, last_batch="drop").plan()
    even = FixedBucketSampler(ANSWER, EDGES, 32, world_size=8, last_batch="drop", balance=balance).plan()
    assert batches_of(plain) == batches_of(even)

    def spread(plan):
        loads = [
            [(ANSWER[plan.batch(step, rank).rows] ** power).sum() for rank in range(8)]
            for step in range(len(plan))
        ]
        return np.ptp(loads, axis=1).sum()

    assert spread(even) < spread(plain) / 10


def test_resume_on_the_same_number_of_ranks():
    sampler = FixedBucketSampler(ANSWER, EDGES, 32, world_size=4)
    plan = sampler.plan(5)
    state = json.loads(json.dumps(sampler.state(plan, 17)))
    resumed, step = FixedBucketSampler(ANSWER, EDGES, 32, world_size=4).resume(state)
    assert step == 17
    assert resumed.batch(17, 3).rows.tolist() == plan.batch(17, 3).rows.tolist()


@pytest.mark.parametrize("world_sizes", [(8, 4, 2), (1, 3, 8)])
def test_resume_on_other_numbers_of_ranks_hands_out_exactly_the_rest(world_sizes):
    makers = [
        lambda world: FixedBucketSampler(ANSWER, EDGES, 32, world_size=world),
        lambda world: TokenBudgetSampler(ANSWER, 4096, window=500, world_size=world),
    ]
    for make in makers:
        first, second, third = map(make, world_sizes)
        plan = first.plan(5)
        seen = [plan.seen(6)]
        plan, step = second.resume(first.state(plan, 6))
        assert step == 0
        seen.append(plan.seen(5))
        plan, _ = third.resume(json.loads(json.dumps(second.state(plan, 5))))
        seen.append(handed_out(plan))
        assert np.sort(np.concatenate(seen)).tolist() == list(range(len(ANSWER)))


def test_a_sampler_can_be_copied_with_other_options():
    for sampler in samplers():
        copy = dataclasses.replace(sampler, world_size=2)
        assert copy.fingerprint == sampler.fingerprint
        assert copy.plan().world_size == 2


def test_resume_refuses_another_sampler():
    sampler = FixedBucketSampler(ANSWER, EDGES, 32)
    state = sampler.state(sampler.plan(), 3)
    for other in (
        FixedBucketSampler(ANSWER[:-1], EDGES, 32),
        FixedBucketSampler(ANSWER, EDGES, 33),
        FixedBucketSampler(ANSWER, EDGES, 32, seed=1),
        FixedBucketSampler(ANSWER, bucket_boundaries(ANSWER, 7), 32),
    ):
        with pytest.raises(CheckpointError, match="other lengths"):
            other.resume(state)


@pytest.mark.parametrize(
    "change",
    [
        {"step": -1},
        {"world_size": 0},
        {"epoch": None},
        {"history": [[1]]},
        {"history": [[0, 3]]},
        {"step": "x"},
    ],
)
def test_resume_refuses_a_damaged_checkpoint(change):
    sampler = FixedBucketSampler(ANSWER, EDGES, 32)
    with pytest.raises(CheckpointError, match="damaged"):
        sampler.resume(sampler.state(sampler.plan(), 3) | change)


def test_a_sample_with_two_lengths_fits_its_shape():
    pairs = np.stack([ANSWER, ANSWER[::-1]], axis=1)
    edges = bucket_boundaries(pairs, 6, "constant")
    plan = FixedBucketSampler(pairs, edges, 16, world_size=2).plan()
    for step in range(len(plan)):
        rows, shape = plan.batch(step, 1)
        assert len(shape) == 3
        assert (pairs[rows] <= shape[1:]).all()
    longest = 2 * int(ANSWER.max())
    with pytest.raises(ConfigError, match=f"one sample padded to {longest}"):
        TokenBudgetSampler(pairs, longest - 1)


def test_fewer_samples_than_a_group_are_dropped_or_padded():
    lengths = np.array([3, 4])
    assert len(FixedBucketSampler(lengths, np.array([4]), 8, last_batch="drop").plan()) == 0
    padded = FixedBucketSampler(lengths, np.array([4]), 8, world_size=2, last_batch="pad").plan()
    assert padded.shapes() == [(8, 4)]
    assert padded.mask(0, 0).sum() == padded.mask(0, 1).sum() == 1
    assert SortedBucketSampler(lengths, 8, last_batch="drop").plan().shapes() == []


def test_a_window_is_of_the_batches_of_all_ranks():
    plan = SortedBucketSampler(ANSWER, 4, window=2, world_size=8, membership="ordered").plan()
    windows = {}
    for step in range(len(plan)):
        group = plan.group(step)
        (number,) = set((group // (2 * 4 * 8)).tolist())
        windows.setdefault(number, []).append(sorted(ANSWER[group].tolist()))
    for short, long in (sorted(groups) for groups in windows.values() if len(groups) == 2):
        assert short[-1] <= long[0]


@pytest.mark.parametrize(
    "options",
    [
        {"world_size": 0},
        {"seed": -1},
        {"membership": "sometimes"},
        {"last_batch": "keep"},
        {"balance": "time"},
        {"batch_size": 0},
        {"ratio": -1.0},
        {"pad_to": "window"},
        {"boundaries": np.array([300, 200])},
        {"boundaries": np.array([0, 300])},
        {"pad_to_multiple_of": 8},
    ],
)
def test_bad_options_are_refused(options):
    with pytest.raises(ConfigError):
        FixedBucketSampler(**{"lengths": ANSWER, "boundaries": EDGES, "batch_size": 4, **options})


@pytest.mark.parametrize("options", [{"window": 100}, {"pad_to_multiple_of": 8}])
def test_options_that_boundaries_leave_without_effect_are_refused(options):
    with pytest.raises(ConfigError, match="no effect beside boundaries"):
        TokenBudgetSampler(ANSWER, 4096, EDGES, **options)


def test_a_budget_below_one_sample_is_refused():
    with pytest.raises(ConfigError, match="one sample padded to 216"):
        TokenBudgetSampler(ANSWER, 215)
    assert len(TokenBudgetSampler(ANSWER, 216).plan())
    with pytest.raises(ConfigError, match="batch_multiple"):
        TokenBudgetSampler(ANSWER, 4096, batch_multiple=0)


def test_more_buckets_than_their_numbers_can_hold_are_refused():
    with pytest.raises(ConfigError, match="no more than 65,536"):
        FixedBucketSampler(ANSWER, np.arange(1, 65_538), 32)
    assert len(FixedBucketSampler(ANSWER, np.arange(1, 65_537), 32).plan())


def test_steps_and_ranks_out_of_range_are_refused():
    plan = FixedBucketSampler(ANSWER, EDGES, 32).plan()
    for step in (-1, len(plan)):
        with pytest.raises(ConfigError, match="step"):
            plan.batch(step)
    for rank in (-1, 1):
        with pytest.raises(ConfigError, match="rank"):
            plan.mask(0, rank)
    with pytest.raises(ConfigError, match="epoch"):
        FixedBucketSampler(ANSWER, EDGES, 32).plan(-1)


def slide_lengths():
    """Return the 112 lengths of GluonNLP's slide on bucketing."""
    state = np.random.RandomState(215)
    classes = [(5, 10, 48), (10, 15, 32), (15, 20, 16), (20, 25, 8), (25, 30, 8)]
    samples = [
        (state.randint(low, high), name) for name, (low, high, n) in enumerate(classes) for _ in range(n)
    ]
    state.shuffle(samples)
    return np.array([length for length, _ in samples])


SLIDE = slide_lengths()


def padding_per_sample(plan, lengths):
    padded = (plan.sizes * plan.lengths.sum(axis=1)).sum()
    return round((padded - lengths[plan.rows].sum()) / len(lengths), 3)


@pytest.mark.parametrize(
    ("make", "tokens"),
    [
        (lambda rules: SortedBucketSampler(SLIDE, 8, window=1, **rules), 11.679),
        (lambda rules: SortedBucketSampler(SLIDE, 8, window=4, **rules), 3.679),
        (lambda rules: FixedBucketSampler(SLIDE, FIVE, 8, pad_to="batch", **rules), 1.679),
        (lambda rules: FixedBucketSampler(SLIDE, FIVE, 8, ratio=0.7, pad_to="batch", **rules), 1.750),
        (lambda rules: SortedBucketSampler(SLIDE, 8, window=None, **rules), 0.679),
    ],
)
def test_the_figures_of_gluonnlps_slide(make, tokens):
    plan = make({"membership": "ordered"}).plan()
    assert padding_per_sample(plan, SLIDE) == tokens


FIVE = bucket_boundaries(SLIDE, 5, "constant")


def test_optimal_boundaries_pad_the_slides_lengths_less():
    optimal = FixedBucketSampler(SLIDE, bucket_boundaries(SLIDE, 5), 8, pad_to="batch", membership="ordered")
    assert padding_per_sample(optimal.plan(), SLIDE) < 1.679


def test_a_ratio_gives_the_batch_sizes_of_gluonnlp():
    sampler = FixedBucketSampler(SLIDE, FIVE, 8, ratio=0.7)
    assert sampler.batch_sizes.tolist() == [18, 11, 8, 8, 8]
