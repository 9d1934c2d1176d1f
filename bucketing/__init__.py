"""Batches by length: where buckets end, who shares a batch, and how it becomes arrays.

Pure NumPy, on lengths and token arrays; nothing here reads a shard.

    boundaries = bucket_boundaries(lengths, 8)
    sampler = FixedBucketSampler(lengths, boundaries, 32, world_size=8, seed=1)
    plan = sampler.plan(epoch)
    for step in range(len(plan)):
        rows, (_, length) = plan.batch(step, rank)
        batch = Pad()([tokens[row] for row in rows], length)
"""

from .batchify.batchify import Batchify, Dict, Flatten, List, Pack, Pad, Stack, Tuple
from .batchify.ragged import Packed, Ragged
from .boundaries.bucket_boundaries import BucketBoundaries, assign_buckets, bucket_boundaries
from .packing.packing import PackingPlan, pack
from .packing.streaming import PackedRow, StreamBatch, StreamingBuckets, StreamingPacker
from .report.plot import plot_report
from .report.report import PlanReport, compare, report_plan
from .samplers.base import BatchSampler
from .samplers.plan import Batch, BatchPlan
from .samplers.samplers import FixedBucketSampler, SortedBucketSampler, TokenBudgetSampler

__all__ = [
    "Batch",
    "BatchPlan",
    "BatchSampler",
    "Batchify",
    "BucketBoundaries",
    "Dict",
    "FixedBucketSampler",
    "Flatten",
    "List",
    "Pack",
    "Packed",
    "PackedRow",
    "PackingPlan",
    "Pad",
    "PlanReport",
    "Ragged",
    "SortedBucketSampler",
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
