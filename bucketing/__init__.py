"""Batches by length: where buckets end, who shares a batch, and how it becomes arrays.

Pure NumPy, on lengths and token arrays; nothing here reads a shard.
"""

from stoker.bucketing.batchify import Batchify, Dict, Flatten, List, Pack, Pad, Stack, Tuple
from stoker.bucketing.boundaries import BucketBoundaries, assign_buckets, bucket_boundaries
from stoker.bucketing.packing import PackingPlan, pack
from stoker.bucketing.plan import Batch, BatchPlan
from stoker.bucketing.ragged import Packed, Ragged
from stoker.bucketing.report import PlanReport, compare, report_plan
from stoker.bucketing.sampler import FixedBucketSampler, SortedBucketSampler, TokenBudgetSampler
from stoker.bucketing.streaming import PackedRow, StreamBatch, StreamingBuckets, StreamingPacker

__all__ = [
    "Batch",
    "BatchPlan",
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
    "report_plan",
]
