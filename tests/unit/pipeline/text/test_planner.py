"""The memory of plans, which each rank holds."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.processes import wait_until
from helpers.shards import make, write_shards

from stoker.pipeline.order.orders import FullShuffle
from stoker.pipeline.text.batching import BatchingConfig
from stoker.pipeline.text.planner import TextPlanner

N = 200_000
BUCKETS: dict[str, Any] = {"batch_size": 64, "buckets": 8, "shuffle": True}


@pytest.mark.parametrize(
    ("options", "held", "peak"), [({}, 22, 46), ({"pack": 512, "buckets": None, "batch_size": 8}, 19, 38)]
)
def test_plans_of_two_epochs_take_few_bytes_a_sample(options: dict[str, Any], held: int, peak: int) -> None:
    """Bytes of NumPy for a sample; with 64-bit numbers 27 held and 54 at the peak, packed 63 and 84.

    An array of zeros for the beginnings of whole sequences would make 21 and 40 of the packed ones.
    """
    lengths = 1 + (np.arange(N) ** 2 % 300)[:, None]
    planner = TextPlanner(BatchingConfig(**{**BUCKETS, **options}), lengths, FullShuffle(N), 1)
    tracemalloc.start()
    try:
        plans = [planner.plan(epoch) for epoch in (0, 1)]
        traced = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert plans[0].rows.dtype == plans[1].rows.dtype == np.int32
    assert plans[0].batch(0).rows.dtype == np.int64
    assert traced[0] / N < held
    assert traced[1] / N < peak


@pytest.mark.parametrize("options", [{}, {"pack": 40, "batch_size": 3}], ids=["buckets", "packed"])
def test_a_rank_holds_one_plan_while_a_pass_runs(tmp_path: Path, options: dict[str, Any]) -> None:
    loader = make(write_shards(tmp_path), prefetch=1, **options)
    planner = loader.pipeline.config.planner  # a loader does not show its plans
    first = [weakref.ref(planner.plan(0)), weakref.ref(planner.epoch(0))]
    assert planner.plan(0) is first[0]()
    for _ in loader:
        assert first[0]() is not None
    batches = iter(loader)
    next(batches)
    # The thread that made the last batches of the first pass may end a moment later.
    wait_until(lambda: gc.collect() >= 0 and first[0]() is None)
    assert (first[1]() is None) == ("pack" in options)
    running = planner.plan(1)
    planner.plan(2)
    assert planner.plan(1) is running
    loader.close()
