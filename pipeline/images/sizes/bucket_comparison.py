"""A comparison of ways to choose shapes for batches of images, for ``stoker buckets`` and benchmarks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stoker.bucketing.aspect_shapes import ShapeBucketSampler, best_shapes, candidate_shapes
from stoker.bucketing.reports import ShapeReport, report_shapes

from .aspect_buckets import AspectBuckets

Int64 = npt.NDArray[np.int64]


def compare_shapes(
    sizes: Int64, buckets: AspectBuckets, *, batch_size: int, world_size: int, seed: int
) -> dict[str, ShapeReport]:
    """A report of the first epoch of each way, by name.

    "one" has the best single shape, so its batches are random. "even" has ``buckets.buckets`` shapes at even
    distances, and "optimal" the same number of best shapes. "all" has every shape.
    """
    # sizes (N, 2)
    candidates = candidate_shapes(buckets.area, buckets.multiple, buckets.max_ratio)
    count = buckets.buckets or 8
    even = np.unique(np.rint(np.linspace(0, len(candidates) - 1, count)).astype(np.int64))
    chosen = {
        "one": best_shapes(sizes, candidates, 1),
        "even": candidates[even],
        "optimal": best_shapes(sizes, candidates, count),
        "all": candidates,
    }
    return {
        name: report_shapes(
            ShapeBucketSampler(
                sizes, shapes, np.full(len(shapes), batch_size), seed=seed, world_size=world_size
            )
        )
        for name, shapes in chosen.items()
    }
