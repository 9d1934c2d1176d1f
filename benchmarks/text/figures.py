"""Padding and randomness of batches of pairs, and the time of planning the epochs of other orders.

    python -m stoker.benchmarks.text.figures            # all, about a minute
    python -m stoker.benchmarks.text.figures --quick    # without the ten million lengths

The pairs have the lengths of the questions and answers of GSM8K's training split, in whitespace tokens. The
ten million lengths are log-normal, up to 2,048.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import partial
from time import perf_counter, process_time

import numpy as np
import numpy.typing as npt

from stoker.bucketing import (
    FixedBucketSampler,
    SortedBucketSampler,
    TokenBudgetSampler,
    bucket_boundaries,
    compare,
    report_plan,
)
from stoker.pipeline.order.orders import FullShuffle, Order, Stream, WeightedDraws, WeightedShuffle
from stoker.pipeline.order.quotas import Balanced, MixedOrder, QuotaSchedule, apportion_draws
from stoker.pipeline.text.batching import BatchingConfig
from stoker.pipeline.text.planner import TextPlanner

from ..measuring import make_parser
from .gsm8k import gsm8k_lengths

Lengths = npt.NDArray[np.int64]

DRAWN = BatchingConfig(batch_size=64, buckets=32, shuffle=True, last_batch="drop")


def several_fields(question: Lengths, answer: Lengths) -> None:
    """Print reports on the plans of one epoch of pairs."""
    print("GSM8K questions and answers: batches of 32, and of 4,096 tokens")
    pairs = np.stack([question, answer], axis=1)
    edges = bucket_boundaries(pairs, 8)
    window = 100 * 4096 * len(pairs) // int(pairs.sum())
    samplers = {
        "random": SortedBucketSampler(pairs, 32, window=1),
        "8 buckets": FixedBucketSampler(pairs, edges, 32),
        "windows": SortedBucketSampler(pairs, 32),
        "all sorted": SortedBucketSampler(pairs, 32, window=None),
        "4096, buckets": TokenBudgetSampler(pairs, 4096, edges),
        "4096, windows": TokenBudgetSampler(pairs, 4096, window=window),
    }
    print(compare({name: report_plan(one.plan(0), pairs, one.plan(1)) for name, one in samplers.items()}))


def seconds(function: Callable[[], object]) -> str:
    """Return wall and CPU seconds of one call, as text."""
    wall, cpu = perf_counter(), process_time()
    function()
    return f"{perf_counter() - wall:6.2f} {process_time() - cpu:6.2f}"


def drawn_epochs(lengths: Lengths) -> None:
    """Print the time and memory of the plan of an epoch in a TextLoader, for each order."""
    n = len(lengths)
    numbers = np.random.default_rng(1).random(n)
    parts = np.array([n - n // 4, n // 4])
    halves = (
        QuotaSchedule(apportion_draws([1, 1], n), parts, 0),
        (FullShuffle(n - n // 4, 0), FullShuffle(n // 4, 1)),
    )
    orders: dict[str, Order] = {
        "every sample once": FullShuffle(n),
        "weighted": WeightedDraws(n, 0, numbers),
        "weighted, half, each once": WeightedShuffle(n // 2, 0, numbers),
        "10 classes balanced": Balanced(n, 0, (10 * numbers).astype(np.int64)),
        "two datasets, half each": MixedOrder(*halves),
        "1 million of a stream": Stream(FullShuffle(n), 1_000_000),
    }
    print("\n10 million lengths in 32 buckets for 8 ranks: seconds, CPU seconds; MB held, peak")
    print(f"{'':<28}{'first epoch':>13} {'next epoch':>15}")
    for name, order in orders.items():
        planner = TextPlanner(DRAWN, lengths[:, None], order, 8)
        times = [seconds(partial(planner.plan, epoch)) for epoch in range(2)]
        del planner
        tracemalloc.start()
        planner = TextPlanner(DRAWN, lengths[:, None], order, 8)
        planner.plan(0)
        held, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        print(f"  {name:<26} {times[0]}   {times[1]}   {held / 1e6:6.0f} {most / 1e6:6.0f}")


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="leave out the ten million lengths")
    quick = parser.parse_args().quick
    several_fields(gsm8k_lengths("question"), gsm8k_lengths("answer"))
    if not quick:
        drawn_epochs(np.random.default_rng(0).lognormal(5, 1, 10_000_000).astype(np.int64).clip(1, 2048))


if __name__ == "__main__":
    main()
