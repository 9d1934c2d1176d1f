"""The batch sampler of an epoch, made from the arguments of a text loader."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.bucketing import BatchSampler, FixedBucketSampler, SortedBucketSampler, TokenBudgetSampler
from stoker.bucketing.samplers.batch_sampler import Balance
from stoker.errors import ConfigError

from .batching_config import BatchingConfig

Int64 = npt.NDArray[np.int64]

_WINDOW = 100  # batches of a window that a k-d split orders; states depend on the number


def make_batch_sampler(
    batching: BatchingConfig,
    lengths: npt.NDArray[Any],
    boundaries: Int64 | None,
    balance: Balance | Int64 | None,
    world_size: int,
) -> BatchSampler:
    """Return the sampler that groups samples or packed rows into batches."""
    # lengths (M, D), boundaries (K, D) int64
    flat = flat_lengths(lengths)
    shared: dict[str, Any] = {
        "seed": batching.seed,
        "world_size": world_size,
        "membership": "fresh" if batching.shuffle else "ordered",
        "shuffle": batching.shuffle,
        "last_batch": batching.last_batch,
        "balance": balance,
    }
    if batching.batch_sampler is not None:
        return _given_sampler(batching.batch_sampler, flat, shared)
    budget, size = batching.max_tokens, batching.batch_size or 0
    if boundaries is not None:
        edges = flat_lengths(boundaries)
        if budget is not None:
            return TokenBudgetSampler(flat, budget, edges, **shared)
        return FixedBucketSampler(flat, edges, size, **shared)
    shared["pad_to_multiple_of"] = batching.pad_to_multiple_of
    if budget is not None:
        window = max(1, _WINDOW * budget * len(flat) // max(1, int(flat.sum())))
        return TokenBudgetSampler(flat, budget, window=window, **shared)
    if batching.is_auto or batching.shuffle:
        window = _WINDOW if batching.is_auto else 1
        return SortedBucketSampler(flat, size, window=window, **shared)
    # A sampler that sorts would change the order within a batch; one bucket of all samples keeps it.
    longest = flat_lengths(lengths.max(axis=0, keepdims=True))
    return FixedBucketSampler(flat, longest, size, pad_to="batch", **shared)


def flat_lengths(table: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Lengths of one field as (N,), as samplers take them; of several fields as (N, D)."""
    return table[:, 0] if table.shape[1] == 1 else table


def _given_sampler(make: Any, lengths: npt.NDArray[Any], shared: dict[str, Any]) -> BatchSampler:
    fixed = sorted(shared.keys() & make.keywords.keys()) if isinstance(make, partial) else []
    if fixed:
        raise ConfigError(
            f"batch_sampler fixes {', '.join(fixed)}, which the loader sets",
            hint="Give seed, world_size, shuffle, last_batch and balance to the loader; membership follows "
            "shuffle. To set one otherwise, give a function that changes the keyword arguments it gets.",
        )
    sampler = make(lengths, **shared)
    if not isinstance(sampler, BatchSampler):
        raise ConfigError(
            f"batch_sampler must make a stoker.bucketing.BatchSampler, found {sampler!r}",
            hint="Give a class of stoker.bucketing, or a functools.partial of one.",
        )
    if sampler.lengths.shape != lengths.shape:
        raise ConfigError(
            f"batch_sampler must cover the samples of the epoch: it got lengths of shape {lengths.shape}, "
            f"and its sampler has {sampler.lengths.shape}",
            hint="Give the sampler a length or a cost for each sample; choose samples with dataset.select() "
            "or sampler=.",
        )
    if sampler.world_size != shared["world_size"]:
        raise ConfigError(
            f"batch_sampler must plan for {shared['world_size']} ranks, found {sampler.world_size}",
            hint="Pass on the keyword arguments that the loader calls it with.",
        )
    return sampler
