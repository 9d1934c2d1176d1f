"""The memory of plans, which each rank holds."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from stoker.pipeline.order.epoch_order import FullShuffle
from stoker.pipeline.text.batching_config import BatchingConfig
from stoker.pipeline.text.planner import TextPlanner

N = 200_000
BUCKETS: dict[str, Any] = {
    "batch_size": 64,
    "max_tokens": None,
    "batch_sampler": None,
    "buckets": 8,
    "pad_multiple": 1,
    "pack": None,
    "max_sequences": None,
    "max_length": None,
    "too_long": "error",
    "shuffle": True,
    "samples_per_epoch": None,
    "seed": 0,
    "last_batch": "partial",
    "balance": None,
}


@pytest.mark.parametrize(
    ("options", "held", "peak"),
    [({}, 22, 46), ({"pack": 512, "buckets": None, "batch_size": 8}, 42, 62)],
)
def test_plans_of_two_epochs_take_few_bytes_a_sample(options: dict[str, Any], held: int, peak: int) -> None:
    """Bytes of NumPy for a sample; with 64-bit numbers 27 held and 54 at the peak, packed 63 and 84."""
    lengths = 1 + (np.arange(N) ** 2 % 300)[:, None]
    planner = TextPlanner(BatchingConfig(**{**BUCKETS, **options}), lengths, FullShuffle(N), 1)
    tracemalloc.start()
    try:
        plans = [planner.plan(epoch) for epoch in (0, 1)]
        found = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert plans[0].rows.dtype == plans[1].rows.dtype == np.int32
    assert plans[0].batch(0).rows.dtype == np.int64
    assert found[0] / N < held
    assert found[1] / N < peak
