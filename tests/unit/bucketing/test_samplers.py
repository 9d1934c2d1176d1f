"""Samplers by length: every sample once, equal ranks, budgets, resuming, and randomness."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from stoker.benchmarks.text.gsm8k import gsm8k_lengths
from stoker.bucketing import (
    FixedBucketSampler,
    SortedBucketSampler,
    TokenBudgetSampler,
    bucket_boundaries,
    report_plan,
)
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


PAIRS = np.stack([ANSWER, ANSWER[::-1]], axis=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"world_size": 0}, "world_size must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"membership": "sometimes"}, "membership must be one of"),
        ({"last_batch": "keep"}, "last_batch must be one of"),
        ({"balance": "time"}, "balance must be one of"),
        ({"balance": np.arange(3)}, "balance must have"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"batch_size": True}, "batch_size must be an integer"),
        ({"ratio": -1.0}, "ratio must be at least 0"),
        ({"pad_to": "window"}, "pad_to must be one of"),
        ({"boundaries": np.array([300, 200])}, "ascending"),
        ({"boundaries": np.array([0, 300])}, "at least 1"),
        ({"boundaries": np.arange(1, 65_538)}, "no more than 65,536"),
        ({"pad_to_multiple_of": 8}, "no effect beside pad_to='bucket'"),
        ({"lengths": [300, 2]}, "row 0 has length 300"),
    ],
)
def test_wrong_options_of_buckets_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        FixedBucketSampler(**{"lengths": ANSWER, "boundaries": EDGES, "batch_size": 4, **options})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TokenBudgetSampler(ANSWER, 215), "one sample padded to 216"),
        (lambda: TokenBudgetSampler(PAIRS, 2 * 216 - 1), "one sample padded to 432"),
        (lambda: TokenBudgetSampler(ANSWER, 4096, batch_multiple=0), "batch_multiple"),
        (lambda: TokenBudgetSampler(ANSWER, 4096, EDGES, window=100), "no effect beside bound"),
        (
            lambda: TokenBudgetSampler(ANSWER, 4096, EDGES, pad_to_multiple_of=8),
            "no effect beside bound",
        ),
        (lambda: SortedBucketSampler(ANSWER, 4, window=0), "window must be at least 1"),
        (lambda: SortedBucketSampler(ANSWER, 4).plan(-1), "epoch"),
        (lambda: SortedBucketSampler(ANSWER, 4).plan().batch(-1), "step"),
        (lambda: SortedBucketSampler(ANSWER, 400).plan().batch(1000), "step"),
        (lambda: SortedBucketSampler(ANSWER, 4).plan().mask(0, 1), "rank"),
    ],
)
def test_wrong_budgets_windows_and_steps_are_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


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
def test_the_numbers_of_gluonnlps_slide(make, tokens):
    plan = make({"membership": "ordered"}).plan()
    assert padding_per_sample(plan, SLIDE) == tokens


FIVE = bucket_boundaries(SLIDE, 5, "constant")


def test_optimal_boundaries_pad_the_slides_lengths_less():
    optimal = FixedBucketSampler(SLIDE, bucket_boundaries(SLIDE, 5), 8, pad_to="batch", membership="ordered")
    assert padding_per_sample(optimal.plan(), SLIDE) < 1.679


def test_a_ratio_gives_the_batch_sizes_of_gluonnlp():
    sampler = FixedBucketSampler(SLIDE, FIVE, 8, ratio=0.7)
    assert sampler.batch_sizes.tolist() == [18, 11, 8, 8, 8]


def test_windows_of_pairs_take_the_split_and_say_so_in_their_fingerprint() -> None:
    lengths = np.random.default_rng(3).integers(1, 300, (960, 2))
    pairs = SortedBucketSampler(lengths, 8, window=40, seed=1)
    assert report_plan(pairs.plan(0), lengths).padding < 15
    same = SortedBucketSampler(lengths[:, 0], 8, window=40, seed=1)
    assert (pairs.rule, same.rule) == ("k-d split", "")


LENGTHS = np.random.default_rng(0).integers(1, 40, 101)


def make(world_size: int = 1) -> FixedBucketSampler:
    return FixedBucketSampler(
        LENGTHS, np.array([10, 20, 40]), 4, seed=3, world_size=world_size, last_batch="drop"
    )


def test_ranks_have_the_batches_of_the_plan_and_share_no_sample() -> None:
    sampler = make(world_size=3)
    ranks = [sampler.batches(rank) for rank in range(3)]
    for epoch in (0, 2):
        for batches in ranks:
            batches.set_epoch(epoch)
        plan = sampler.plan(epoch)
        found = [list(batches) for batches in ranks]
        for rank, batches in enumerate(found):
            assert batches == [plan.batch(step, rank).rows.tolist() for step in range(len(plan))]
            assert len(ranks[rank]) == len(batches)
        rows = [row for batches in found for batch in batches for row in batch]
        assert len(set(rows)) == len(rows) == plan.num_samples
        assert list(plan.batches(1)) == found[1]
    for wrong in (lambda: plan.batches(3), lambda: sampler.batches(-1)):
        with pytest.raises(ConfigError, match="rank must be at"):
            wrong()


def test_the_loader_of_pytorch_takes_them() -> None:
    data = pytest.importorskip("torch.utils.data")
    batches = make().batches()
    loader = data.DataLoader(LENGTHS.tolist(), batch_sampler=batches)
    first = [batch.tolist() for batch in loader]
    assert first == [LENGTHS[batch].tolist() for batch in batches]
    assert len(loader) == len(first)
    batches.set_epoch(1)
    assert [batch.tolist() for batch in loader] != first
