"""TextLoader(stream=...): rows that go on in the next batch, on any ranks and after any stop."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.shards import N, Sequences, make, same

from stoker.bucketing import MaskTokens, SpanCorruption
from stoker.errors import ConfigError

COLUMNS = ("input_ids", "targets", "begins", "row")


def streams(shards: Path, world_size: int = 1, **options: Any) -> list[Any]:
    """A loader of streams for each rank."""
    defaults = {"stream": 7, "batch_size": 6, "columns": COLUMNS}
    return [
        make(shards, rank=rank, world_size=world_size, **{**defaults, **options})
        for rank in range(world_size)
    ]


def joined(loaders: list[Any], steps: int | None = None) -> list[np.ndarray[Any, Any]]:
    """Each column of a pass, (streams, tokens): the rows of all ranks in the order of the streams."""
    passes = [list(itertools.islice(loader, steps)) for loader in loaders]

    def rows(step: tuple[Any, ...], column: int) -> np.ndarray[Any, Any]:
        return np.stack([batch[column] for batch in step], 1).reshape(-1, step[0][column].shape[1])

    steps_of_all = list(zip(*passes, strict=True))
    columns = range(len(loaders[0].columns))
    return [np.concatenate([rows(step, column) for step in steps_of_all], axis=1) for column in columns]


@pytest.mark.parametrize("shuffle", [True, False])
def test_each_row_continues_in_the_next_batch(shards: Path, sequences: Sequences, shuffle: bool) -> None:
    ids, targets, begins, rows = joined(streams(shards, shuffle=shuffle))
    order = list(dict.fromkeys(rows.reshape(-1).tolist()))
    assert (order == list(range(len(order)))) is not shuffle
    text = [token for row in order for token in sequences[row][0]]
    total = sum(len(q) for q, _ in sequences.values())
    assert ids.size == (total - 1) // 6 * 6, "all but the last tokens, fewer than there are streams"
    assert ids.reshape(-1).tolist() == text[: ids.size]
    assert targets.reshape(-1)[:-1].tolist() == text[1 : ids.size]
    starts = np.diff(rows.reshape(-1), prepend=-1) != 0
    starts[:: ids.shape[1]] = True
    assert (begins.reshape(-1) == starts).all()


def test_epochs_differ_in_order_and_all_steps_but_the_last_are_full(shards: Path) -> None:
    (loader,) = streams(shards)
    first, second = list(loader), list(loader)
    assert len(first) == len(second) == len(loader)
    assert not same(first, second)
    assert [batch.input_ids.shape for batch in first[:-1]] == [(6, 7)] * (len(first) - 1)
    assert sorted({batch.input_ids.shape for batch in first}) == loader.shapes()
    (dropped,) = streams(shards, last_batch="drop")
    assert same(list(dropped), first[:-1])


@pytest.mark.parametrize(("world_size", "batch_size"), [(1, 6), (2, 3), (3, 2)])
def test_streams_resume_after_any_stop_with_the_same_number_of_rows(
    shards: Path, world_size: int, batch_size: int
) -> None:
    whole = joined(streams(shards))
    steps = len(streams(shards)[0])
    for stop in (0, 1, steps // 2, steps - 1):
        (first,) = streams(shards)
        list(itertools.islice(first, stop))
        rest = streams(shards, world_size, batch_size=batch_size)
        for loader in rest:
            loader.load_state_dict(first.state_dict())
        assert all((a[:, stop * 7 :] == b).all() for a, b in zip(whole, joined(rest), strict=True))


def test_a_mask_hides_the_same_tokens_however_streams_are_cut(shards: Path) -> None:
    mask = MaskTokens(0.3, mask_id=260, vocabulary=256)
    options: dict[str, Any] = {"mask": mask, "columns": ("input_ids", "labels", "begins")}
    plain = joined(streams(shards))[0]
    ids, labels, _ = joined(streams(shards, **options))
    assert 0.2 < (labels >= 0).mean() < 0.4
    assert (labels[labels >= 0] == plain[labels >= 0]).all()
    assert (ids[labels < 0] == plain[labels < 0]).all()
    for world_size, cut in ((1, {"stream": 5}), (2, {"batch_size": 3})):
        columns = joined(streams(shards, world_size, **options, **cut))
        assert same([(ids, labels)], [columns[:2]])


def test_a_loader_of_streams_refuses_to_exclude_samples(shards: Path) -> None:
    (loader,) = streams(shards)
    with pytest.raises(ConfigError, match="exclude needs batches of samples"):
        loader.exclude([3])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"buckets": 3}, "buckets has no effect beside stream"),
        ({"too_long": "truncate"}, "too_long has no effect beside stream"),
        ({"last_batch": "pad"}, "streams end together"),
        ({"fields": ("q", "a")}, "stream takes one field"),
        ({"batch_size": 5 * N * 30}, "has no batch of"),
        ({"columns": ("input_ids", "mask")}, "there is no 'mask'"),
        ({"columns": ("labels",)}, r"(?s)there is no 'labels'.*There are begins, input_ids, row, targets;"),
        ({"mask": SpanCorruption(sentinels=range(300, 400))}, "whole sequences, which stream cuts"),
    ],
)
def test_arguments_that_do_not_fit_streams_are_refused(
    shards: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        streams(shards, **options)
