"""The figures of GluonNLP's slide, made again from its lengths."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.bucketing import FixedBucketSampler, SortedBucketSampler, bucket_boundaries


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
