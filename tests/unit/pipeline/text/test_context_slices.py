"""Slices for context parallelism, by numbers and by a mesh: together they are the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import shards as text_shards

from stoker.bucketing import Pack, Pad
from stoker.errors import ConfigError

COLUMNS = ("input_ids", "segment_ids", "labels", "loss_weights", "cu_seqlens")


class Mesh:
    """A stand-in for a DeviceMesh of one dimension."""

    def __init__(self, rank: int, size: int) -> None:
        self.get_local_rank = lambda: rank
        self.size = lambda: size


@pytest.mark.parametrize("form", ["balanced", "contiguous"])
def test_the_slices_of_all_ranks_are_the_rows(shards: Path, form: str) -> None:
    options: dict[str, Any] = {"pack": 48, "batch_size": 3, "columns": COLUMNS}
    whole = list(text_shards.make(shards, **options))
    loaders = [
        text_shards.make(shards, context=(rank, 4), context_slices=form, **options) for rank in range(4)
    ]
    assert loaders[0].element_spec()[0].shape == (12,)
    assert loaders[0].state_dict() == text_shards.make(shards, **options).state_dict()
    parts = np.arange(48).reshape(8, 6)
    for batches in zip(whole, *loaders, strict=True):
        expected, slices = batches[0], batches[1:]
        shifted = np.full_like(expected.labels, -100)
        shifted[:, :-1] = expected.labels[:, 1:]
        for rank, part in enumerate(slices):
            # Megatron-LM: view(2 * size, -1), of which rank r takes r and 2 * size - 1 - r.
            indices = parts[[rank, 7 - rank]] if form == "balanced" else parts[[2 * rank, 2 * rank + 1]]
            weights = (shifted != -100).astype(np.float32)
            arrays = {"input_ids": expected.input_ids, "labels": shifted, "loss_weights": weights}
            for name, values in arrays.items():
                assert np.array_equal(getattr(part, name), values[:, indices.ravel()]), (rank, name)
            assert np.array_equal(part.segment_ids, expected.segment_ids[:, indices.ravel()])
            assert np.array_equal(part.cu_seqlens, expected.cu_seqlens)


def test_a_mesh_gives_the_slice_of_its_rank_of_padded_rows(shards: Path) -> None:
    options: dict[str, Any] = {"pad_to_multiple_of": 8, "columns": ("input_ids", "labels")}
    whole = list(text_shards.make(shards, **options))
    for batch, part in zip(whole, text_shards.make(shards, context=Mesh(1, 2), **options), strict=True):
        length = batch.input_ids.shape[1] // 4
        assert np.array_equal(part.input_ids, batch.input_ids[:, length : 3 * length])


@pytest.mark.parametrize("labels", ["causal", "seq2seq"])
@pytest.mark.parametrize("batchify", [Pad, Pack])
def test_arrays_of_a_batchify_function_move_as_the_columns_of_the_loader_do(
    shards: Path, batchify: type[Pad | Pack], labels: Any
) -> None:
    names = ("input_ids", "labels", "loss_weights")
    options: dict[str, Any] = {"pack": 48} if batchify is Pack else {"pad_to_multiple_of": 8}
    made = batchify(outputs=names, value=256, prefix="x_", ignore_index=-7, labels=labels)
    for rank in range(2):
        context = {"context": (rank, 2), **options}
        expected = text_shards.make(shards, columns=names, labels=labels, **context)
        for batch, part in zip(expected, text_shards.make(shards, batchify=made, **context), strict=True):
            assert np.array_equal(part.x_input_ids, batch.input_ids)
            assert np.array_equal(part.x_labels, np.where(batch.labels == -100, -7, batch.labels))
            assert np.array_equal(part.x_loss_weights, batch.loss_weights)


def test_labels_of_a_function_of_the_users_own_must_say_that_they_are_shifted(shards: Path) -> None:
    def batchify(samples: Any, length: Any = None) -> dict[str, Any]:
        arrays = Pad(outputs=("input_ids", "labels"))(samples, length)
        return {"input_ids": arrays["input_ids"], name: arrays["labels"]}

    options: dict[str, Any] = {"batchify": batchify, "context": (0, 2), "pad_to_multiple_of": 8}
    name = "labels"
    with pytest.raises(
        ConfigError, match=r"whether the array 'labels' of batchify is shifted(.|\n)*shift_labels"
    ):
        text_shards.make(shards, **options)
    name = "shift_labels"
    first = next(iter(text_shards.make(shards, **options)))
    assert first.shift_labels.shape == first.input_ids.shape


def test_contexts_that_do_not_fit_are_refused(shards: Path) -> None:
    for options, message in [
        ({"context": 4}, "context must be a DeviceMesh of one dimension, or rank and size, found 4"),
        ({"context": (4, 4)}, "context has rank 4 of 4"),
        (
            {"context": (0, 4), "context_slices": "zigzag"},
            "must be one of contiguous, balanced, found 'zigzag'",
        ),
        ({"context": (0, 4), "pack": 36}, "rows of 36 tokens cannot be divided among 4 ranks"),
        ({"context": (0, 4), "buckets": None}, "rows of 1 tokens cannot be divided"),
        ({"context": (0, 1), "fields": ("q", "a"), "pad_to_multiple_of": 2}, "rows of one field"),
    ]:
        with pytest.raises(ConfigError, match=message):
            text_shards.make(shards, **options)
