"""Batch samplers of a text loader: those of the user, and the order without buckets."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data.shards.text_shards import N, make

from stoker.bucketing import SortedBucketSampler
from stoker.errors import ConfigError


def test_a_sampler_by_costs_changes_batches_but_no_tokens(
    shards: Path, sequences: dict[int, tuple[list[int], list[int]]]
) -> None:
    def costs(lengths: Any, **shared: Any) -> SortedBucketSampler:
        return SortedBucketSampler(lengths + 2, 4, **shared)

    loader = make(
        shards, batch_size=None, batch_sampler=costs, columns=("input_ids", "attention_mask", "row")
    )
    for batch in loader:
        for ids, mask, row in zip(*batch, strict=True):
            assert ids[mask].tolist() == sequences[row][0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lengths, shared: (lengths[:-1], shared), "must cover the samples of the epoch"),
        (lambda lengths, shared: (np.stack([lengths] * 2, axis=1), shared), "must cover the samples"),
        (lambda lengths, shared: (lengths, {**shared, "world_size": 2}), "must plan for 1 ranks, found 2"),
    ],
)
def test_a_sampler_of_other_samples_or_ranks_is_refused(shards: Path, change: Any, message: str) -> None:
    def sampler(lengths: Any, **shared: Any) -> SortedBucketSampler:
        lengths, shared = change(lengths, shared)
        return SortedBucketSampler(lengths, 4, **shared)

    with pytest.raises(ConfigError, match=message):
        make(shards, batch_size=None, batch_sampler=sampler)


@pytest.mark.parametrize("name", ["last_batch", "seed", "balance", "membership"])
def test_a_partial_cannot_fix_an_argument_of_the_loader(shards: Path, name: str) -> None:
    values = {"last_batch": "drop", "seed": 3, "balance": "tokens", "membership": "frozen"}
    fixed = partial(SortedBucketSampler, batch_size=4, **{name: values[name]})
    with pytest.raises(ConfigError, match=f"batch_sampler fixes {name}, which the loader sets"):
        make(shards, batch_size=None, batch_sampler=fixed)


@pytest.mark.parametrize("last_batch", ["partial", "drop", "pad"])
@pytest.mark.parametrize("fields", [("q",), ("q", "a")])
def test_without_shuffle_and_buckets_batches_are_in_the_order_of_the_dataset(
    shards: Path, fields: tuple[str, ...], last_batch: str
) -> None:
    options: dict[str, Any] = {"fields": fields, "shuffle": False, "buckets": None, "last_batch": last_batch}
    loader = make(shards, **options, columns=("row", "mask"))
    rows = np.concatenate([batch.row[batch.mask] for batch in loader]).tolist()
    assert rows == list(range(N // 8 * 8 if last_batch == "drop" else N))
    ranks = [list(make(shards, **options, rank=r, world_size=3, columns=("row",))) for r in range(3)]
    for step, batches in enumerate(zip(*ranks, strict=True)):
        global_batch = np.stack([batch.row for batch in batches], axis=1).reshape(-1)
        assert global_batch[: N - 24 * step].tolist() == list(range(24 * step, min(24 * step + 24, N)))
