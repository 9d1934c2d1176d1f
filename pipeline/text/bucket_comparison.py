"""A comparison of all ways to batch the same text by length, for ``stoker buckets`` and benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from stoker.arguments import list_of_names
from stoker.bucketing import (
    FixedBucketSampler,
    PlanReport,
    SortedBucketSampler,
    bucket_boundaries,
    pack,
    report_plan,
)
from stoker.bucketing.boundaries import Method
from stoker.bucketing.samplers import BatchSampler
from stoker.errors import ConfigError, DatasetError
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.text.records import length_column


@dataclass(frozen=True)
class Settings:
    """Settings that all methods share."""

    batch_size: int = 32  # Samples of a batch on one rank
    buckets: int = 8  # Number of buckets
    pad_to_multiple_of: int = 1  # Padded lengths are multiples of this
    pack: int | None = None  # Tokens of a packed row; None leaves out packing
    world_size: int = 1  # Number of ranks
    seed: int = 0  # Seed of the draws


def text_lengths(dataset: Dataset, fields: Sequence[str] | None = None) -> npt.NDArray[np.int64]:
    """Return the tokens of every sample, (N,) int64, or (N, D) for D fields, from the index alone."""
    if dataset.manifest.sample_type != "text":
        raise DatasetError(
            f"the dataset holds {dataset.manifest.sample_type}s, which have no lengths", path=dataset.path
        )
    stored = str(dataset.manifest.options.get("fields", "")).split(",")
    chosen = stored if fields is None else list(list_of_names("fields", fields))
    if not chosen or not set(chosen) <= set(stored):
        raise ConfigError(
            f"fields must be of {', '.join(stored)}, found {', '.join(chosen)}", path=dataset.path
        )
    columns = [dataset.column(length_column(field)).astype(np.int64) for field in chosen]
    return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)


def compare_methods(lengths: npt.NDArray[np.int64], settings: Settings) -> dict[str, PlanReport]:
    """Return a report of the first epoch of random batches, sorted windows, buckets and packing, by name."""
    shared: dict[str, Any] = {"seed": settings.seed, "world_size": settings.world_size}
    several = lengths.ndim > 1
    multiple = settings.pad_to_multiple_of
    samplers: dict[str, BatchSampler] = {
        name: SortedBucketSampler(
            lengths, settings.batch_size, window=window, pad_to_multiple_of=multiple, **shared
        )
        for name, window in (("random", 1), ("sorted", 100))
    }
    for method in get_args(Method):
        if method == "optimal" and several and lengths.shape[1] > 2:
            continue
        edges = bucket_boundaries(lengths, settings.buckets, method, pad_to_multiple_of=multiple)
        samplers[method] = FixedBucketSampler(lengths, edges, settings.batch_size, **shared)
    reports = {
        name: report_plan(sampler.plan(0), lengths, sampler.plan(1)) for name, sampler in samplers.items()
    }
    if settings.pack is not None:
        plans = [pack(lengths, settings.pack, seed=settings.seed, epoch=epoch) for epoch in (0, 1)]
        reports[f"packed {settings.pack}"] = report_plan(plans[0], lengths, plans[1])
    return reports
