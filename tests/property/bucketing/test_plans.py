"""Bucketing plans of any lengths: boundaries are optimal, and no sample is lost or repeated."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.bucketing import (
    FixedBucketSampler,
    SortedBucketSampler,
    StreamingBuckets,
    StreamingPacker,
    TokenBudgetSampler,
    assign_buckets,
    bucket_boundaries,
    pack,
    report_plan,
)

lengths_of = st.lists(st.integers(1, 60), min_size=1, max_size=80).map(np.array)
pairs_of = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=30).map(np.array)
quick = settings(max_examples=40)


@quick
@given(lengths_of, st.integers(1, 9), st.integers(1, 8), st.sampled_from(["tokens", "attention"]))
def test_no_rule_beats_the_optimum(lengths, num_buckets, pad_to_multiple_of, cost):
    options = {"pad_to_multiple_of": pad_to_multiple_of, "cost": cost}
    best = bucket_boundaries(lengths, num_buckets, **options)
    assert abs(best.waste - best.lower_bound) < 1e-9
    for method in ("constant", "linear", "exponential", "quantile", "tokens"):
        other = bucket_boundaries(lengths, num_buckets, method, **options)
        assert other.waste >= best.waste - 1e-9
        assert len(other) <= num_buckets
        assert (other.boundaries % pad_to_multiple_of == 0).all()
        assert other.counts.sum() == len(lengths)


@quick
@given(pairs_of, st.integers(1, 4))
def test_no_rule_beats_the_optimal_shapes(pairs, num_buckets):
    best = bucket_boundaries(pairs, num_buckets)
    assert best.lower_bound - 1e-9 <= best.waste
    assert (np.diff(best.boundaries, axis=0) >= 0).all()
    assert (best.boundaries[assign_buckets(pairs, best.boundaries)] >= pairs).all()
    for method in ("constant", "quantile", "tokens"):
        assert bucket_boundaries(pairs, num_buckets, method).waste >= best.waste - 1e-9


@quick
@given(
    lengths_of,
    st.integers(1, 5),
    st.integers(1, 9),
    st.integers(1, 5),
    st.sampled_from(["drop", "pad", "partial"]),
    st.sampled_from([None, "tokens", "attention"]),
    st.sampled_from(["fresh", "frozen", "ordered"]),
    st.integers(0, 2**64 - 1),
)
def test_plans_show_each_sample_once_in_batches_that_fit_it(
    lengths, num_buckets, batch_size, world_size, last_batch, balance, membership, seed
):
    options = {
        "world_size": world_size,
        "last_batch": last_batch,
        "balance": balance,
        "membership": membership,
        "seed": seed,
    }
    edges = bucket_boundaries(lengths, num_buckets)
    for sampler in (
        FixedBucketSampler(lengths, edges, batch_size, ratio=0.5, **options),
        SortedBucketSampler(lengths, batch_size, window=3, **options),
        TokenBudgetSampler(lengths, 60 + batch_size, edges, batch_multiple=2, **options),
        TokenBudgetSampler(lengths, 60 + batch_size, window=10, **options),
    ):
        check_plan(sampler)


@quick
@given(
    pairs_of,
    st.integers(1, 300),
    st.integers(1, 9),
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from(["drop", "pad", "partial"]),
    st.integers(0, 2**64 - 1),
)
def test_plans_of_pairs_show_each_sample_once_within_the_budget(
    pairs, more, batch_size, pad_to_multiple_of, world_size, last_batch, seed
):
    options = {
        "pad_to_multiple_of": pad_to_multiple_of,
        "world_size": world_size,
        "last_batch": last_batch,
        "seed": seed,
    }
    check_plan(SortedBucketSampler(pairs, batch_size, window=3, **options))
    most = int(pairs.max(axis=0).sum()) + 2 * pad_to_multiple_of + more
    budget = TokenBudgetSampler(pairs, most, window=20, **options)
    check_plan(budget)
    assert all(n * (a + b) <= most for n, a, b in budget.plan(1).shapes())


def check_plan(sampler):
    """Checks that ranks agree on shapes, samples fit them, and no sample is lost or repeated."""
    lengths, world_size, last_batch = sampler.lengths, sampler.world_size, sampler.last_batch
    plan = sampler.plan(1)
    seen = []
    for step in range(len(plan)):
        batches = [plan.batch(step, rank) for rank in range(world_size)]
        assert {batch.shape for batch in batches} == {batches[0].shape}
        for rank, batch in enumerate(batches):
            assert len(batch.rows) == batch.shape[0] > 0
            assert (lengths[batch.rows].reshape(len(batch.rows), -1) <= batch.shape[1:]).all()
            seen += batch.rows[plan.mask(step, rank)].tolist()
    assert len(set(seen)) == len(seen) == plan.num_samples
    if last_batch != "drop":
        assert len(seen) == len(lengths)
    assert (plan.valid < plan.sizes).sum() <= (last_batch != "drop")
    if last_batch == "partial":
        assert (plan.sizes - plan.valid).sum() < world_size
    if len(plan):
        assert report_plan(plan, lengths, sampler.plan(2)).tokens == lengths[seen].sum()


@quick
@given(lengths_of, st.integers(1, 5), st.lists(st.tuples(st.integers(1, 4), st.integers(0, 6)), max_size=3))
def test_an_epoch_survives_any_change_of_ranks(lengths, batch_size, parts):
    edges = bucket_boundaries(lengths, 3)
    seen, state = [], None
    for world_size, steps in [*parts, (2, 10**6)]:
        sampler = FixedBucketSampler(lengths, edges, batch_size, world_size=world_size)
        plan, begun = sampler.resume(state) if state else (sampler.plan(4), 0)
        done = min(begun + steps, len(plan))
        seen += [row for step in range(begun, done) for row in plan.group(step).tolist()]
        state = sampler.state(plan, done)
    assert sorted(seen) == list(range(len(lengths)))


@quick
@given(
    lengths_of,
    st.integers(1, 70),
    st.none() | st.integers(1, 6),
    st.sampled_from(["truncate", "split"]),
    st.none() | st.integers(0, 9),
)
def test_packings_hold_every_token_once(lengths, capacity, max_sequences, too_long, seed):
    plan = pack(lengths, capacity, max_sequences=max_sequences, too_long=too_long, seed=seed)
    assert plan.filled.max() <= capacity
    assert np.diff(plan.offsets).min() > 0
    assert max_sequences is None or np.diff(plan.offsets).max() <= max_sequences
    assert len(plan) >= plan.least
    tokens = np.zeros(len(lengths), int)
    np.add.at(tokens, plan.rows, plan.lengths)
    assert (tokens == (lengths if too_long == "split" else np.minimum(lengths, capacity))).all()
    ordered = np.lexsort((plan.begins, plan.rows))
    same = np.diff(plan.rows[ordered]) == 0
    assert (plan.begins[ordered][1:][same] == (plan.begins + plan.lengths)[ordered][:-1][same]).all()


@quick
@given(lengths_of, st.integers(1, 20), st.integers(60, 80), st.integers(1, 4), st.integers(1, 3))
def test_streams_lose_nothing(lengths, buffer_size, capacity, batch_size, world_size):
    rows = [
        row
        for packed in StreamingPacker(capacity, buffer_size=buffer_size).stream(enumerate(lengths.tolist()))
        for row in packed.rows
    ]
    assert sorted(rows) == list(range(len(lengths)))
    buckets = StreamingBuckets(
        bucket_boundaries(lengths, 3),
        batch_size,
        buffer_size=buffer_size + batch_size * world_size,
        world_size=world_size,
    )
    batches = list(buckets.stream(enumerate(lengths.tolist())))
    assert sorted(row for batch in batches for row in batch.rows[: batch.valid]) == list(range(len(lengths)))
    assert all(lengths[batch.rows].max() <= batch.shape[1] for batch in batches)
