"""Plans of batches by length."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import stoker.bucketing as bk

from .results import Local, Near
from .sources import Sandbox

ROWS = np.arange(400)
LENGTHS = 1 + (ROWS * ROWS * 31 + ROWS * 7) % 211 // (1 + ROWS % 3)
PAIRS = np.stack((LENGTHS, 1 + (LENGTHS * 5 + ROWS) % 97), axis=1)
METHODS = ("optimal", "constant", "linear", "exponential", "quantile", "tokens")
SEQUENCES = [np.arange(1, 1 + length) * 3 for length in (4, 1, 7, 3, 6)]


def plan_of(plan: Any) -> list[Any]:
    """Returns all batches of a plan."""
    steps = [
        [[plan.batch(step, rank), plan.mask(step, rank)] for rank in range(plan.world_size)]
        for step in range(len(plan))
    ]
    return [steps, plan.shapes(), plan.num_samples, plan.history]


def boundaries(_: Sandbox) -> dict[str, Any]:
    """Boundaries by every method."""
    results: dict[str, Any] = {}
    for method in METHODS:
        for name, lengths in (("one", LENGTHS), ("two", PAIRS)):
            for multiple in (1, 8):
                edges = bk.bucket_boundaries(lengths, 6, method, pad_to_multiple_of=multiple)
                prefix = f"{method}/{name}/{multiple}"
                buckets = bk.assign_buckets(lengths, edges.boundaries)
                results[prefix] = [edges.boundaries, edges.counts, buckets]
                shares = [edges.padding, edges.padding_per_sample, edges.waste, edges.lower_bound]
                results[f"{prefix}/cost"] = Near((shares,))
    for cost in ("tokens", "attention"):
        edges = bk.bucket_boundaries(LENGTHS, 4, cost=cost, counts=1 + ROWS % 4)
        results[f"cost/{cost}"] = [edges.boundaries, edges.counts]
    return results


@cache
def both_boundaries() -> tuple[bk.BucketBoundaries, bk.BucketBoundaries]:
    """Returns boundaries of one length and of two."""
    return bk.bucket_boundaries(LENGTHS, 5), bk.bucket_boundaries(PAIRS, 5)


def make_samplers(world_size: int, **options: Any) -> dict[str, bk.Sampler]:
    """Returns samplers of all kinds."""
    edges, two = both_boundaries()
    options = {"seed": 11, "world_size": world_size, **options}
    return {
        "fixed": bk.FixedBucketSampler(LENGTHS, edges, 16, **options),
        "fixed/ratio": bk.FixedBucketSampler(
            LENGTHS, edges, 8, ratio=0.5, pad_to="batch", pad_to_multiple_of=4, **options
        ),
        "fixed/two": bk.FixedBucketSampler(PAIRS, two, 16, **options),
        "sorted": bk.SortedBucketSampler(LENGTHS, 16, window=5, **options),
        "sorted/all": bk.SortedBucketSampler(PAIRS, 16, window=None, pad_to_multiple_of=8, **options),
        "tokens": bk.TokenBudgetSampler(LENGTHS, 1000, edges, batch_multiple=4, max_batch_size=40, **options),
        "tokens/window": bk.TokenBudgetSampler(LENGTHS, 1500, window=200, pad_to_multiple_of=2, **options),
    }


def plans(_: Sandbox) -> dict[str, Any]:
    """Plans of all samplers, on several ranks and with every rule."""
    results: dict[str, Any] = {}
    for name, options in (
        ("fresh", {}),
        ("frozen", {"membership": "frozen", "last_batch": "drop"}),
        ("ordered", {"membership": "ordered", "shuffle": False, "last_batch": "pad"}),
        ("tokens", {"balance": "tokens"}),
        ("attention", {"balance": "attention", "last_batch": "pad"}),
        ("costs", {"balance": ROWS % 50}),
    ):
        for world_size in (1, 3):
            for kind, sampler in make_samplers(world_size, **options).items():
                prefix = f"{name}/{kind}/{world_size}"
                results[prefix] = plan_of(sampler.plan(3))
                results[f"{prefix}/state"] = sampler.state(sampler.plan(3), 5)
    for kind, sampler in make_samplers(2).items():
        saved = sampler.state(sampler.plan(1), 4)
        for world_size in (2, 3):
            plan, start = make_samplers(world_size)[kind].resume(saved)
            results[f"resumed/{kind}/{world_size}"] = [plan_of(plan), start]
    return results


def packings(_: Sandbox) -> dict[str, Any]:
    """Packing, with limits, long sequences and seeds."""
    results: dict[str, Any] = {}
    for name, options in (
        ("plain", {"capacity": 256}),
        ("few", {"capacity": 512, "max_sequences": 3}),
        ("split", {"capacity": 100, "too_long": "split"}),
        ("truncate", {"capacity": 100, "too_long": "truncate"}),
        ("seed", {"capacity": 256, "seed": 4}),
        ("epoch", {"capacity": 256, "seed": 4, "epoch": 2}),
    ):
        plan = bk.pack(LENGTHS, **options)
        results[name] = [plan.rows, plan.begins, plan.lengths, plan.offsets, plan.capacity, plan.least]
        results[f"{name}/filled"] = [plan.filled, plan.pieces(3).start, plan.pieces(3).stop]
        results[f"{name}/efficiency"] = Near((plan.efficiency,))
    return results


def reports(_: Sandbox) -> dict[str, Any]:
    """Reports of plans and packings."""
    results: dict[str, Any] = {}
    for world_size in (1, 2):
        for name, sampler in make_samplers(world_size).items():
            report = bk.report_plan(sampler.plan(0), sampler.lengths, sampler.plan(1))
            whole = report.as_dict()
            buckets = whole.pop("buckets")
            results[f"{name}/{world_size}"] = Near((whole,))
            results[f"{name}/{world_size}/buckets"] = Near(tuple(buckets))
            results[f"{name}/{world_size}/json"] = Local(report.to_json())
    results["packing"] = Near((bk.report_plan(bk.pack(LENGTHS, 256), LENGTHS).as_dict(),))
    return results


def streams_by_length(_: Sandbox) -> dict[str, Any]:
    """Buckets and packed rows of a stream, also from a state in the middle."""
    edges = bk.bucket_boundaries(LENGTHS, 4).boundaries
    makers = {
        "buckets": lambda: bk.StreamingBuckets(edges, 8, buffer_size=60),
        "buckets/ranks": lambda: bk.StreamingBuckets(edges, (9, 7, 5, 3), buffer_size=50, world_size=3),
        "packer": lambda: bk.StreamingPacker(256, buffer_size=32),
        "packer/split": lambda: bk.StreamingPacker(90, buffer_size=20, max_sequences=4, too_long="split"),
    }
    pairs = list(zip(ROWS.tolist(), LENGTHS.tolist(), strict=True))
    results: dict[str, Any] = {}
    for name, make in makers.items():
        results[name] = list(make().stream(pairs))
        first, second = make(), make()
        before = [batch for row, length in pairs[:233] for batch in first.push(row, length)]
        second.load_state_dict(first.state_dict())
        results[f"{name}/state"] = [before, first.state_dict(), list(second.stream(pairs[233:]))]
    return results


def batchified(_: Sandbox) -> dict[str, Any]:
    """Arrays that batchify functions make of samples."""
    outputs = (
        "input_ids",
        "attention_mask",
        "lengths",
        "position_ids",
        "segment_ids",
        "labels",
        "loss_weights",
    )
    flat = (*outputs, "cu_seqlens", "max_seqlen")
    rows = [SEQUENCES[:2], SEQUENCES[2:4], SEQUENCES[4:]]
    options: dict[str, Any] = {"value": 9, "position_start": 2, "loss_weights": "sequences"}
    columns = ([[1, 2], [3]], [5, 6])
    return {
        "pad": bk.Pad(outputs=outputs)(SEQUENCES),
        "pad/left": bk.Pad(outputs=outputs, side="left", pad_to_multiple_of=4, dtype="int32", **options)(
            SEQUENCES
        ),
        "pad/length": bk.Pad(outputs=outputs, prefix="x_")(SEQUENCES, 12),
        "flatten": bk.Flatten(outputs=flat)(SEQUENCES),
        "flatten/static": bk.Flatten(outputs=flat, max_sequences=8, **options)(SEQUENCES, 32),
        "pack": bk.Pack(outputs=flat)(rows),
        "pack/static": bk.Pack(outputs=flat, max_sequences=3, **options)(rows, 16),
        "stack": bk.Stack("int32")([[1, 2], [3, 4]]),
        "tuple": bk.Tuple(bk.Pad(), bk.Stack())(columns),
        "dict": bk.Dict({"a": bk.Pad(prefix="a_"), "b": bk.List()})({"a": columns[0], "b": columns[1]}),
    }


CONFIGURATIONS = (boundaries, plans, packings, reports, streams_by_length, batchified)
