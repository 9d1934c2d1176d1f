"""Boundaries of buckets: exact against brute force and published numbers."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import stoker.bucketing
from stoker.benchmarks.text.gsm8k import gsm8k_lengths
from stoker.bucketing import assign_buckets, bucket_boundaries
from stoker.errors import ConfigError

QUESTION, ANSWER = gsm8k_lengths("question"), gsm8k_lengths("answer")
PAIRS = np.stack([QUESTION, ANSWER], axis=1)


def plain_recurrence(values, counts, num_buckets):
    """Return the cost by the recurrence itself, in O(K S^2)."""
    before = np.concatenate(([0], np.cumsum(counts)))
    best = np.concatenate(([0], values * before[1:]))
    for _ in range(num_buckets - 1):
        best = np.array(
            [0]
            + [
                min(best[i] + values[j - 1] * (before[j] - before[i]) for i in range(j + 1))
                for j in range(1, len(values) + 1)
            ]
        )
    return best[-1]


def padded_tokens(lengths, boundaries):
    return boundaries[assign_buckets(lengths, boundaries)].sum()


@pytest.mark.parametrize(
    ("method", "percent"),
    [
        ("constant", 19.5),
        ("linear", 18.6),
        ("exponential", 17.4),
        ("quantile", 25.8),
        ("tokens", 17.2),
        ("optimal", 13.1),
    ],
)
def test_gsm8k_answers_in_eight_buckets(method, percent):
    found = bucket_boundaries(ANSWER, 8, method)
    assert round(100 * found.padding, 1) == percent
    assert round(100 * found.lower_bound, 1) == 13.1
    padded = padded_tokens(ANSWER, found.boundaries)
    assert found.padding == pytest.approx(1 - ANSWER.sum() / padded)
    assert found.padding_per_sample == pytest.approx((padded - ANSWER.sum()) / len(ANSWER))
    assert found.counts.tolist() == np.bincount(assign_buckets(ANSWER, found.boundaries)).tolist()


@pytest.mark.parametrize("num_buckets", [1, 2, 3, 4])
def test_small_case_equals_brute_force(num_buckets):
    lengths = np.random.default_rng(num_buckets).integers(1, 14, 40)
    values = np.unique(lengths)
    least = min(
        padded_tokens(lengths, np.array([*inner, values[-1]]))
        for size in range(num_buckets)
        for inner in combinations(values[:-1], size)
    )
    found = bucket_boundaries(lengths, num_buckets)
    assert padded_tokens(lengths, found.boundaries) == least
    assert len(found) <= num_buckets


@pytest.mark.parametrize("num_buckets", [1, 2, 3])
def test_nested_shapes_equal_brute_force(num_buckets):
    lengths = np.random.default_rng(num_buckets).integers(1, 6, (25, 2))
    shapes = [(a, b) for a in range(1, 6) for b in range(1, 6)]
    top = tuple(lengths.max(axis=0).tolist())
    least = min(
        padded_tokens(lengths, np.array([*inner, top]))
        for size in range(num_buckets)
        for inner in combinations([shape for shape in shapes if shape != top], size)
        if (np.diff([*inner, top], axis=0) >= 0).all()
    )
    assert padded_tokens(lengths, bucket_boundaries(lengths, num_buckets).boundaries) == least


def test_nested_shapes_beyond_the_exact_grid_are_still_shapes():
    lengths = np.random.default_rng(0).integers(1, 3000, (2000, 2))
    found = bucket_boundaries(lengths, 2)
    assert found.lower_bound <= found.padding < bucket_boundaries(lengths, 1).padding


def test_multiples_are_optimal_among_multiples():
    found = bucket_boundaries(ANSWER, 8, pad_to_multiple_of=8)
    assert (found.boundaries % 8 == 0).all()
    values, counts = np.unique(-(-ANSWER // 8) * 8, return_counts=True)
    assert padded_tokens(ANSWER, found.boundaries) == plain_recurrence(values, counts, 8)


def test_attention_cost_moves_boundaries_to_the_long_end():
    tokens, attention = bucket_boundaries(ANSWER, 8), bucket_boundaries(ANSWER, 8, cost="attention")
    by_function = bucket_boundaries(ANSWER, 8, cost=lambda lengths: lengths.astype(float) ** 2)
    assert attention.boundaries[-2] > tokens.boundaries[-2]
    assert by_function.boundaries.tolist() == attention.boundaries.tolist()
    assert attention.waste == pytest.approx(attention.lower_bound)
    assert tokens.padding < attention.padding


def test_a_histogram_gives_what_the_samples_give():
    values, counts = np.unique(ANSWER, return_counts=True)
    for method in ("optimal", "tokens", "quantile"):
        one = bucket_boundaries(ANSWER, 8, method)
        other = bucket_boundaries(values, 8, method, counts=counts)
        assert one.boundaries.tolist() == other.boundaries.tolist()
        assert one.padding == pytest.approx(other.padding)
        assert one.counts.tolist() == other.counts.tolist()


def test_a_length_of_millions_takes_no_table_of_that_size():
    lengths = np.array([5, 5, 10_000_000, 7])
    assert bucket_boundaries(lengths, 2).boundaries.tolist() == [7, 10_000_000]


def test_constant_widths_are_gluonnlps():
    # The five keys that GluonNLP 0.10 makes of lengths 5 to 29.
    assert bucket_boundaries(np.arange(5, 30), 5, "constant").boundaries.tolist() == [9, 14, 19, 24, 29]


def test_an_empty_sequence_gets_a_shape_that_is_not_empty():
    assert bucket_boundaries([0, 0, 4], 2).boundaries.tolist() == [1, 4]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bucket_boundaries([], 2), "lengths must be"),
        (lambda: bucket_boundaries([1.5], 2), "integers"),
        (lambda: bucket_boundaries([3, -1], 2), "row 1"),
        (lambda: bucket_boundaries([1], 0), "num_buckets"),
        (lambda: bucket_boundaries([1], 1, "best"), "method"),
        (lambda: bucket_boundaries([[1, 2, 3]], 2), "one or two lengths"),
        (lambda: bucket_boundaries([1, 2], 2, pad_to_multiple_of=0), "pad_to_multiple_of"),
        (lambda: bucket_boundaries([1, 2], 2, cost="quadratic"), "cost must be"),
        (lambda: bucket_boundaries([1, 2], 2, cost=lambda lengths: -lengths), "nondecreasing"),
        (lambda: bucket_boundaries([1, 2], 2, counts=[1]), "counts must be"),
        (lambda: bucket_boundaries([1, 2], 2, counts=[0, 0]), "counts must be"),
        (lambda: assign_buckets([1, 2, 9], np.array([4, 8])), "row 2 has length 9"),
        (lambda: assign_buckets([[1, 2]], np.array([4, 8])), "do not fit"),
    ],
)
def test_wrong_arguments_are_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_public_names_exist_in_alphabetical_order():
    assert sorted(set(stoker.bucketing.__all__)) == stoker.bucketing.__all__
    assert all(hasattr(stoker.bucketing, name) for name in stoker.bucketing.__all__)
