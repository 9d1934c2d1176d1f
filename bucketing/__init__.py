"""Batches of sequences by length, from NumPy arrays of lengths and tokens; no module here reads a shard.

    boundaries = bucket_boundaries(lengths, 8)
    sampler = FixedBucketSampler(lengths, boundaries, 32, world_size=8, seed=1)
    plan = sampler.plan(epoch)
    for step in range(len(plan)):
        rows, (_, length) = plan.batch(step, rank)
        batch = Pad()([tokens[row] for row in rows], length)

The folders; each imports only those before it:

    boundaries  the padded length of each bucket
    samplers    which samples share a batch, at which step and on which rank
    packing     which sequences share a packed row, and packing and bucketing of streams
    batchify    functions that turn the samples of a batch into arrays
    masking     tokens that are hidden, for a model to restore
    report      padding, shapes, randomness and balance of a plan
"""

from .batchify.context import BatchContext
from .batchify.fields import Batchify, Dict, List, Stack, Tuple
from .batchify.preference import PreferencePairs
from .batchify.ragged import Packed, Ragged
from .batchify.sequences import Flatten, Pack, Pad
from .boundaries.bucket_boundaries import BucketBoundaries, assign_buckets, bucket_boundaries
from .masking.mask_tokens import MaskTokens
from .masking.span_corruption import SpanCorruption
from .packing.plan import PackingPlan, pack
from .packing.streaming import PackedRow, StreamBatch, StreamingBuckets, StreamingPacker
from .report.plan_report import PlanReport, compare, report_plan
from .report.plot import plot_report
from .samplers.batch_sampler import BatchSampler
from .samplers.by_length import FixedBucketSampler, SortedBucketSampler, TokenBudgetSampler
from .samplers.plan import Batch, BatchPlan
from .samplers.rank_batches import RankBatches

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
