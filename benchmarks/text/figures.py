"""The figures of batching by length: padding, fill, randomness, and the time of planning.

    python -m stoker.benchmarks.text.figures            # all, about a minute
    python -m stoker.benchmarks.text.figures --quick    # without the ten million lengths

The lengths are the 112 of GluonNLP's slide, made again from its rules; the training split of GSM8K in
whitespace tokens; and log-normal ones for times.
"""

from __future__ import annotations

import timeit
import tracemalloc
from collections.abc import Callable
from functools import partial
from time import perf_counter, process_time

import numpy as np
import numpy.typing as npt

from stoker.benchmarks.text.gsm8k import gsm8k_lengths
from stoker.bucketing import (
    FixedBucketSampler,
    Flatten,
    Pack,
    Packed,
    Pad,
    Ragged,
    SortedBucketSampler,
    StreamingPacker,
    TokenBudgetSampler,
    bucket_boundaries,
    compare,
    pack,
    report_plan,
)
from stoker.bucketing.boundaries import Method
from stoker.pipeline.order.orders import FullShuffle, Order, Stream, WeightedDraws, WeightedShuffle
from stoker.pipeline.order.quotas import Balanced, MixedOrder, QuotaSchedule, apportion_draws
from stoker.pipeline.text.batching import BatchingConfig
from stoker.pipeline.text.planner import TextPlanner

from ..measuring import make_parser

Lengths = npt.NDArray[np.int64]

DRAWN = BatchingConfig(
    batch_size=64,
    max_tokens=None,
    batch_sampler=None,
    buckets=32,
    pad_to_multiple_of=1,
    pack=None,
    max_sequences=None,
    max_length=None,
    too_long="error",
    shuffle=True,
    samples_per_epoch=None,
    seed=0,
    last_batch="drop",
    balance=None,
)
METHODS: tuple[Method, ...] = ("constant", "linear", "exponential", "quantile", "tokens", "optimal")


def slide_lengths() -> Lengths:
    """Return the 112 lengths of GluonNLP's slide: five classes, NumPy's legacy generator, seed 215."""
    state = np.random.RandomState(215)
    classes = [(5, 10, 48), (10, 15, 32), (15, 20, 16), (20, 25, 8), (25, 30, 8)]
    samples = [(state.randint(low, high), k) for k, (low, high, n) in enumerate(classes) for _ in range(n)]
    state.shuffle(samples)
    return np.array([length for length, _ in samples])


def slide() -> None:
    """Print the padding of the slide's lengths, with the rules of GluonNLP and with optimal boundaries."""
    lengths = slide_lengths()
    print("GluonNLP's slide: 112 lengths, batches of 8, tokens of padding per sample")
    five, best = bucket_boundaries(lengths, 5, "constant"), bucket_boundaries(lengths, 5)
    samplers = {
        "no bucketing (11.679)": SortedBucketSampler(lengths, 8, window=1, membership="ordered"),
        "sorted windows of 4 (3.679)": SortedBucketSampler(lengths, 8, window=4, membership="ordered"),
        "fixed buckets, ratio 0 (1.679)": FixedBucketSampler(
            lengths, five, 8, pad_to="batch", membership="ordered"
        ),
        "fixed buckets, ratio 0.7 (1.750)": FixedBucketSampler(
            lengths, five, 8, ratio=0.7, pad_to="batch", membership="ordered"
        ),
        "fully sorted (0.679)": SortedBucketSampler(lengths, 8, window=None, membership="ordered"),
        "optimal buckets, ratio 0": FixedBucketSampler(
            lengths, best, 8, pad_to="batch", membership="ordered"
        ),
        "optimal buckets, ratio 0.7": FixedBucketSampler(
            lengths, best, 8, ratio=0.7, pad_to="batch", membership="ordered"
        ),
    }
    for name, sampler in samplers.items():
        plan = sampler.plan()
        report = report_plan(plan, lengths)
        print(
            f"  {name:<34} {report.padding_per_sample:7.3f}   {len(plan):3} batches, {report.shapes} shapes"
        )


def boundaries(question: Lengths, answer: Lengths) -> None:
    """Print the padding of every rule for boundaries."""
    print("\nGSM8K, 8 buckets, padding in percent: answers / question and answer")
    pairs = np.stack([question, answer], axis=1)
    for method in METHODS:
        one, two = bucket_boundaries(answer, 8, method), bucket_boundaries(pairs, 8, method)
        print(f"  {method:<12} {100 * one.padding:6.2f} {100 * two.padding:8.2f}")
    print(f"  lower bound  {100 * one.lower_bound:6.2f} {100 * two.lower_bound:8.2f}")
    print(f"  optimal, 16 buckets {100 * bucket_boundaries(answer, 16).padding:.2f}")


def packing(answer: Lengths) -> None:
    """Print the fill of packed rows."""
    print("\nGSM8K answers packed at 256")
    plan = pack(answer, 256)
    print(f"  best fit decreasing  {100 * plan.efficiency:6.2f} %  {len(plan)} rows; at least {plan.least}")
    rng = np.random.default_rng(0)
    for name, order in (("file order", np.arange(len(answer))), ("shuffled", rng.permutation(len(answer)))):
        rows = list(StreamingPacker(256).stream(zip(order.tolist(), answer[order].tolist(), strict=True)))
        share = answer.sum() / (256 * len(rows))
        print(f"  stream, buffer 256   {100 * share:6.2f} %  {len(rows)} rows; {name}, last rows included")


def ranks(answer: Lengths) -> None:
    """Print reports on the plans of one epoch."""
    print("\nGSM8K answers, batches of 32: one rank and eight, padding, ranks, randomness")
    edges = bucket_boundaries(answer, 8)
    samplers = {
        "random": SortedBucketSampler(answer, 32, window=1),
        "windows": SortedBucketSampler(answer, 32, window=50),
        "buckets": FixedBucketSampler(answer, edges, 32),
        "frozen": FixedBucketSampler(answer, edges, 32, membership="frozen"),
        "8 ranks": FixedBucketSampler(answer, edges, 32, world_size=8),
        "8, static": FixedBucketSampler(answer, edges, 32, world_size=8, last_batch="drop"),
        "8, even": FixedBucketSampler(
            answer, edges, 32, world_size=8, last_batch="drop", balance="attention"
        ),
    }
    print(compare({name: report_plan(one.plan(0), answer, one.plan(1)) for name, one in samplers.items()}))


def several_fields(question: Lengths, answer: Lengths) -> None:
    """Print reports on the plans of one epoch of pairs."""
    print("\nGSM8K questions and answers: batches of 32, and of 4,096 tokens")
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


def ten_million(lengths: Lengths) -> None:
    """Print the time of planning."""
    print("\n10 million log-normal lengths up to 2,048: seconds, CPU seconds")
    print(f"  32 optimal boundaries     {seconds(lambda: bucket_boundaries(lengths, 32))}")
    print(f"  best fit decreasing       {seconds(lambda: pack(lengths, 2048))}")
    sampler = FixedBucketSampler(lengths, bucket_boundaries(lengths, 32), 64, world_size=8)
    print(f"  an epoch of fixed buckets {seconds(lambda: sampler.plan(0))}")
    windows = SortedBucketSampler(np.stack([lengths, lengths[::-1]], axis=1), 64, world_size=8)
    print(f"  windows of pairs          {seconds(lambda: windows.plan(0))}")


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
    print("\nThe same, drawn into 32 buckets for 8 ranks: seconds, CPU seconds; MB held, peak")
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


def assembly() -> None:
    """Print the time of assembling a batch."""
    print("\n64 sequences of up to 512 tokens, CPU microseconds per batch (best of 20 x 50)")
    rng = np.random.default_rng(0)
    lengths = rng.integers(128, 513, 64)
    lengths[0] = 512
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    ragged = Ragged(rng.integers(0, 50_000, offsets[-1]).astype(np.int32), offsets)
    full = Ragged(rng.integers(0, 50_000, 64 * 512).astype(np.int32), np.arange(257) * 128)
    packed = Packed(full, np.arange(0, 257, 4))
    arrays = [ragged[k] for k in range(len(ragged))]
    everything = Pad(outputs=("input_ids", "attention_mask", "lengths", "position_ids", "labels"))
    cases: dict[str, Callable[[], object]] = {
        "Pad, one array": lambda: Pad()(ragged, 512),
        "Pad, list of arrays": lambda: Pad()(arrays, 512),
        "Pad, mask, positions, labels": lambda: everything(ragged, 512),
        "Flatten": lambda: Flatten()(ragged),
        "Pack, 256 sequences in 64 rows": lambda: Pack()(packed, 512),
    }
    for name, function in cases.items():
        best = min(timeit.repeat(function, timer=process_time, number=50, repeat=20)) / 50
        print(f"  {name:<32} {1e6 * best:6.0f}")


def main() -> None:
    """Print all figures."""
    parser = make_parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="leave out the ten million lengths")
    quick = parser.parse_args().quick
    question, answer = gsm8k_lengths("question"), gsm8k_lengths("answer")
    slide()
    boundaries(question, answer)
    packing(answer)
    ranks(answer)
    several_fields(question, answer)
    assembly()
    if not quick:
        lengths = np.random.default_rng(0).lognormal(5, 1, 10_000_000).astype(np.int64).clip(1, 2048)
        ten_million(lengths)
        drawn_epochs(lengths)


if __name__ == "__main__":
    main()
