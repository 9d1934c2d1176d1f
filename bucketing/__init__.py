"""Batches of sequences by length, from NumPy arrays of lengths and tokens; no module here reads a shard.

    boundaries = bucket_boundaries(lengths, 8)
    sampler = FixedBucketSampler(lengths, boundaries, 32, world_size=8, seed=1)
    plan = sampler.plan(epoch)
    for step in range(len(plan)):
        rows, (_, length) = plan.batch(step, rank)
        batch = Pad()([tokens[row] for row in rows], length)

The modules; each imports only those above it:

    boundaries      the padded length of each bucket
    plan            which samples form each batch of an epoch, on which rank
    groups          cuts ordered samples into batches of one shape
    samplers        plans of an epoch from lengths, and states of checkpoints
    aspect_shapes   shapes for images of many aspect ratios, and samplers by shape
    packing         which sequences share a packed row
    streaming       packing and bucketing of a stream of unknown length
    layout          sequences in padded or packed rows
    batchify        functions that turn the samples of a batch into arrays
    masking         tokens that are hidden, for a model to restore
    reports         padding, shapes, randomness and balance of a plan; plots draws them
"""

from .batchify import (
    BatchContext,
    Batchify,
    Dict,
    Flatten,
    List,
    Pack,
    Pad,
    PreferencePairs,
    Stack,
    Tuple,
)
from .boundaries import BucketBoundaries, assign_buckets, bucket_boundaries
from .layout import Packed, Ragged
from .masking import MaskTokens, SpanCorruption
from .packing import PackingPlan, pack
from .plan import Batch, BatchPlan, RankBatches
from .plots import plot_report
from .reports import PlanReport, compare, report_plan
from .samplers import BatchSampler, FixedBucketSampler, SortedBucketSampler, TokenBudgetSampler
from .streaming import PackedRow, StreamBatch, StreamingBuckets, StreamingPacker

__all__ = [
    "Batch",
    "BatchContext",
    "BatchPlan",
    "BatchSampler",
    "Batchify",
    "BucketBoundaries",
    "Dict",
    "FixedBucketSampler",
    "Flatten",
    "List",
    "MaskTokens",
    "Pack",
    "Packed",
    "PackedRow",
    "PackingPlan",
    "Pad",
    "PlanReport",
    "PreferencePairs",
    "Ragged",
    "RankBatches",
    "SortedBucketSampler",
    "SpanCorruption",
    "Stack",
    "StreamBatch",
    "StreamingBuckets",
    "StreamingPacker",
    "TokenBudgetSampler",
    "Tuple",
    "assign_buckets",
    "bucket_boundaries",
    "compare",
    "pack",
    "plot_report",
    "report_plan",
]
