"""Arguments of a text loader: sequences that are too long, and wrong arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.shards import N, Sequences, make

import stoker
from stoker.bucketing import Pad, SortedBucketSampler
from stoker.errors import ConfigError


@pytest.mark.parametrize("options", [{"pack": 10}, {"max_length": 10}, {"buckets": [4, 10]}])
def test_long_sequences_are_refused_or_truncated(
    shards: Path, sequences: Sequences, options: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match=r"sample \d+ has") as caught:
        make(shards, **options)
    row = int(caught.value.message.split()[1])
    assert len(sequences[row][0]) > 10
    batches = list(make(shards, too_long="truncate", **options))
    tokens = np.concatenate([batch.input_ids[batch[1] > 0] for batch in batches])
    expected = [token for q, _ in sequences.values() for token in q[:10]]
    assert sorted(tokens.tolist()) == sorted(expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": None}, "batch_size or batch_sampler"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"max_tokens": 10}, "max_tokens is 10"),
        ({"max_tokens": 100, "buckets": None}, "max_tokens needs buckets"),
        ({"buckets": 0}, "num_buckets"),
        ({"pad_to_multiple_of": 0}, "pad_to_multiple_of"),
        ({"pack": (40, 8)}, "pack has 2 lengths, and rows have 1"),
        ({"pack": 40, "fields": None, "too_long": "split"}, "takes one field"),
        ({"pack": 40, "columns": ("key",)}, "no 'key'"),
        ({"too_long": "split"}, "needs pack"),
        ({"pack": 40, "max_sequences": 0}, "max_sequences must be at least 1"),
        (
            {"pack": 40, "batch_size": None, "batch_sampler": partial},
            "batch_sampler has no effect beside pack",
        ),
        ({"pack": 40, "buckets": 4}, "buckets has no effect beside pack"),
        ({"pack": 40, "pad_to_multiple_of": 16}, "pack must be multiples of pad_to_multiple_of=16"),
        ({"buckets": [9, 32], "pad_to_multiple_of": 8}, "buckets must be multiples of pad_to_multiple_of=8"),
        (
            {"batch_size": None, "batch_sampler": partial, "pad_to_multiple_of": 8},
            "pad_to_multiple_of has no effect",
        ),
        ({"batch_size": None, "batch_sampler": partial, "buckets": [9, 32]}, "buckets has no effect beside"),
        ({"labels": "masked"}, "labels must be one of"),
        ({"labels": "seq2seq", "batchify": Pad()}, "labels has no effect beside batchify"),
        ({"too_long": "truncate"}, "needs a largest length"),
        ({"batch_sampler": partial}, "batch_size or batch_sampler"),
        ({"too_long": "hope", "max_length": 4}, "too_long"),
        ({"fields": ("z",)}, "fields must be of q, a"),
        ({"fields": "answer"}, r"fields must be a list of names, found 'answer'[\s\S]*fields=\('answer',\)"),
        ({"columns": "input_ids"}, "columns must be a list of names, found 'input_ids'"),
        ({"fields": ("q", "q")}, "fields must be of q, a, each once"),
        ({"fields": ()}, "fields must be of q, a"),
        ({"columns": ("image",)}, "no 'image'"),
        ({"columns": ("key", "key")}, "key"),
        ({"columns": ()}, "at least one"),
        ({"shuffle": 1}, "shuffle"),
        ({"last_batch": "maybe"}, "last_batch"),
        ({"dtype": "uint8"}, "dtype"),
        ({"output": "pandas"}, "output"),
        ({"device": "tpu"}, "device"),
        ({"prefetch": 0}, "prefetch"),
        ({"rank": 3, "world_size": 2}, "rank"),
        ({"seed": -1}, "seed"),
    ],
)
def test_wrong_arguments_are_refused(shards: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(shards, **options)


def test_the_error_for_an_unknown_column_lists_known_ones(shards: Path) -> None:
    with pytest.raises(ConfigError, match="there is no 'input_ids' of the fields q, a") as caught:
        make(shards, fields=None, columns=("input_ids",))
    names = str(caught.value).partition("There are ")[2].partition(" and ")[0].split(", ")
    assert {"a_input_ids", "a_labels"} <= {*names}
    assert "input_ids" not in names


def test_a_dataset_of_images_is_refused(make_dataset: Callable[..., Path]) -> None:
    with pytest.raises(ConfigError, match="TextLoader reads text, but this dataset holds image"):
        stoker.TextLoader(make_dataset(), batch_size=2)


def test_a_sampler_by_costs_changes_batches_but_no_tokens(shards: Path, sequences: Sequences) -> None:
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
