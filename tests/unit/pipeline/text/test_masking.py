"""Text loaders with masks: the same masks in any batch, on any ranks and after any stop."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.shards import N, Sequences, make

from stoker.bucketing import BatchContext, MaskTokens, Pad, Ragged, SpanCorruption
from stoker.errors import CheckpointError, ConfigError

TOKENS = MaskTokens(0.3, mask_id=260, vocabulary=256)
SPANS = SpanCorruption(0.3, sentinels=range(300, 400), end_id=258)
WAYS: list[dict[str, Any]] = [{}, {"buckets": None}, {"pack": 40}, {"max_tokens": 150}]


def masked_samples(loaders: list[Any]) -> Sequences:
    """Token ids and labels of each sample, of rows that are padded or packed."""
    samples = {}
    for batch in itertools.chain(*loaders):
        for ids, labels, segments, rows in zip(*batch, strict=True):
            for segment, row in enumerate(np.atleast_1d(rows).tolist(), 1):
                if row >= 0:
                    samples[row] = (ids[segments == segment].tolist(), labels[segments == segment].tolist())
    return samples


@pytest.mark.parametrize(("options", "world_size"), [*((way, 1) for way in WAYS), ({"pack": 40}, 3)])
def test_a_sample_has_the_same_mask_padded_packed_and_on_any_ranks(
    shards: Path, sequences: Sequences, options: dict[str, Any], world_size: int
) -> None:
    columns = ("input_ids", "labels", "segment_ids", "row")
    whole = masked_samples([make(shards, mask=TOKENS, columns=columns)])
    ranks = range(world_size)
    loaders = [
        make(shards, mask=TOKENS, columns=columns, rank=r, world_size=world_size, **options) for r in ranks
    ]
    samples = masked_samples(loaders)
    assert len(samples) == N
    assert samples == whole
    for row, (ids, labels) in samples.items():
        true = sequences[row][0]
        hidden = np.array(labels) != -100
        assert np.array_equal(np.array(labels)[hidden], np.array(true)[hidden])
        assert np.array_equal(np.array(ids)[~hidden], np.array(true)[~hidden])


def test_inputs_and_targets_are_padded_to_two_boundaries(shards: Path) -> None:
    loader = make(shards, mask=SPANS, buckets=4)
    assert loader.columns == ("input_ids", "attention_mask", "labels")
    listed = set(loader.shapes())
    for ids, attention, labels in loader:
        assert (*ids.shape, labels.shape[1]) in listed
        assert (ids[np.arange(len(ids)), attention.sum(axis=1) - 1] == 258).all()
        assert ((labels >= 0).sum(axis=1) > 0).all()
    named = make(shards, mask=SPANS, columns=("target_input_ids", "target_attention_mask", "labels"))
    for ids, attention, labels in named:
        assert (np.where(attention, ids, -100) == labels).all()


def test_inputs_and_targets_are_packed_into_rows_of_two_lengths(shards: Path) -> None:
    columns = ("input_ids", "segment_ids", "labels", "target_segment_ids", "row")
    padded = make(shards, mask=SPANS, columns=("input_ids", "attention_mask", "labels", "row"))
    single = {
        int(row): (ids[mask].tolist(), labels[labels >= 0].tolist())
        for batch in padded
        for ids, mask, labels, row in zip(*batch, strict=True)
    }
    packed = make(shards, mask=SPANS, pack=(64, 40), batch_size=4, columns=columns)
    packed_samples = {}
    for batch in packed:
        assert (batch.input_ids.shape[1], batch.labels.shape[1]) == (64, 40)
        for ids, segments, labels, targets, rows in zip(*batch, strict=True):
            for segment, row in enumerate(rows[rows >= 0].tolist(), 1):
                packed_samples[row] = (ids[segments == segment].tolist(), labels[targets == segment].tolist())
    assert packed_samples == single


def test_an_excluded_sample_has_a_replacement_that_fits_inputs_and_targets(shards: Path) -> None:
    loader = make(shards, mask=SPANS, columns=("input_ids", "labels", "row"))
    steps = iter(loader)
    first = next(steps)
    loader.exclude([29, 59])
    rows = [row for batch in [first, *steps, *loader] for row in batch.row.tolist()]
    assert {29, 59}.isdisjoint(rows[len(first.row) :])
    assert len(rows) == 2 * N


def test_a_loader_with_another_mask_refuses_a_state(shards: Path) -> None:
    state = make(shards, mask=TOKENS).state_dict()
    for mask in (None, MaskTokens(0.2, mask_id=260, vocabulary=256)):
        with pytest.raises(CheckpointError, match="mask was 'MaskTokens"):
            make(shards, mask=mask).load_state_dict(state)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mask": 0.15}, "mask must be a MaskTokens or a SpanCorruption"),
        ({"mask": SPANS, "fields": ("q", "a")}, "of one field, found q, a"),
        (
            {"mask": MaskTokens(mask_id=260, vocabulary=256, whole_words=True)},
            "needs a tokenizer that marks where words begin",
        ),
        ({"mask": SPANS, "pack": 8, "too_long": "split"}, "whole sequences"),
    ],
)
def test_a_mask_that_does_not_fit_is_refused(shards: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(shards, **options)


def test_a_batchify_function_can_take_epoch_step_and_rows(shards: Path) -> None:
    seen: list[BatchContext] = []

    def batchify(samples: Ragged, length: int, context: BatchContext) -> dict[str, Any]:
        seen.append(context)
        return Pad()(samples, length)

    loader = make(shards, batchify=batchify, columns=("input_ids", "row"))
    rows = [batch.row.tolist() for batch in [*loader, *loader]]
    contexts = seen[1 : 1 + len(rows)]  # the first call tells dtypes; the next epoch is read ahead
    assert [context.rows.tolist() for context in contexts] == rows
    steps = len(loader)
    assert [(c.epoch, c.step) for c in contexts] == [(e, s) for e in (0, 1) for s in range(steps)]
    resumed = make(shards, batchify=batchify, rank=1, world_size=2)
    first = make(shards, batchify=batchify)
    list(itertools.islice(first, 3))
    resumed.load_state_dict(first.state_dict())
    seen.clear()
    next(iter(resumed))
    assert seen[0].step == 3
