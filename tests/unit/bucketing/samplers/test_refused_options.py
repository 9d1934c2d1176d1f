"""Samplers by length refuse options that cannot be meant."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.benchmarks.text.gsm8k import gsm8k_lengths
from stoker.bucketing import FixedBucketSampler, TokenBudgetSampler, bucket_boundaries
from stoker.errors import ConfigError

ANSWER = gsm8k_lengths("answer")
EDGES = bucket_boundaries(ANSWER, 8)


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
