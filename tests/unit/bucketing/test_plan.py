"""Samplers as PyTorch's ``batch_sampler``."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.bucketing import FixedBucketSampler
from stoker.errors import ConfigError

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
