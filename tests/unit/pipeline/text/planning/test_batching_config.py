"""Arguments of a text loader: sequences that are too long, and wrong arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data.shards.text_shards import make

import stoker
from stoker.bucketing import Pad
from stoker.errors import ConfigError


@pytest.mark.parametrize("options", [{"pack": 10}, {"max_length": 10}, {"buckets": [4, 10]}])
def test_long_sequences_are_refused_or_truncated(
    shards: Path, sequences: dict[int, tuple[list[int], list[int]]], options: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match=r"sample \d+ has") as caught:
        make(shards, **options)
    row = int(caught.value.message.split()[1])
    assert len(sequences[row][0]) > 10
    batches = list(make(shards, too_long="truncate", **options))
    tokens = np.concatenate([batch.input_ids[batch[1] > 0] for batch in batches])
    expected = [token for q, _ in sequences.values() for token in q[:10]]
    assert sorted(tokens.tolist()) == sorted(expected)


def test_long_sequences_can_be_split(shards: Path, sequences: dict[int, tuple[list[int], list[int]]]) -> None:
    expected = [q[begin : begin + 10] for q, _ in sequences.values() for begin in range(0, len(q), 10)]
    pieces = [
        row[segment == number].tolist()
        for batch in make(shards, pack=10, too_long="split")
        for row, segment in zip(batch.input_ids, batch.segment_ids, strict=True)
        for number in range(1, segment.max() + 1)
    ]
    assert sorted(pieces) == sorted(expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": None}, "one of batch_size, max_tokens and batch_sampler"),
        ({"batch_size": 8, "max_tokens": 100}, "one of batch_size, max_tokens and batch_sampler"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"max_tokens": 10}, "max_tokens is 10"),
        ({"max_tokens": 100, "buckets": None}, "max_tokens needs buckets"),
        ({"buckets": 0}, "num_buckets"),
        ({"pad_to_multiple_of": 0}, "pad_to_multiple_of"),
        ({"pack": (40, 8)}, "pack has 2 lengths, and rows have 1"),
        ({"pack": 40, "fields": None, "too_long": "split"}, "takes one field"),
        ({"pack": 40, "columns": ("key",)}, "no 'key'"),
        ({"too_long": "split"}, "needs pack"),
        ({"max_sequences": 2}, "needs pack"),
        ({"pack": 40, "max_sequences": 0}, "max_sequences must be at least 1"),
        ({"pack": 40, "batch_size": None, "batch_sampler": partial}, "packed rows all have one length"),
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
        ({"batch_sampler": partial}, "one of batch_size, max_tokens and batch_sampler"),
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


def test_the_error_for_an_unknown_column_lists_the_known_ones(shards: Path) -> None:
    with pytest.raises(ConfigError, match="there is no 'input_ids' of the fields q, a") as caught:
        make(shards, fields=None, columns=("input_ids",))
    names = str(caught.value).partition("There are ")[2].partition(";")[0].split(", ")
    assert {"q_input_ids", "a_labels", "row"} <= {*names}
    assert "input_ids" not in names


def test_a_dataset_of_images_is_refused(make_dataset: Callable[..., Path]) -> None:
    with pytest.raises(ConfigError, match="TextLoader reads text, but this dataset holds image"):
        stoker.TextLoader(make_dataset(), batch_size=2)
