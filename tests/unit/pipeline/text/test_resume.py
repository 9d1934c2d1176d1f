"""Text loaders that resume: after any batch, and on another number of ranks."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from helpers.shards import N, make, same

import stoker
from stoker.errors import CheckpointError


@pytest.mark.parametrize(
    "options", [{}, {"pack": 40}, {"max_tokens": 150}, {"buckets": None}, {"last_batch": "pad"}]
)
def test_an_epoch_resumes_after_any_batch(shards: Path, options: dict[str, Any]) -> None:
    loader = make(shards, **options)
    whole, steps = [*loader, *loader], len(loader)
    for stop in range(steps + 1):
        first = make(shards, **options)
        _take(first, stop)
        second = make(shards, prefetch=1, **options)
        second.load_state_dict(first.state_dict())
        rest = list(second) + list(second)
        assert same(rest[: len(whole) - stop], whole[stop:])


def _take(loader: stoker.TextLoader, number: int) -> list[Any]:
    return list(itertools.islice(loader, number)) if number else []


def test_an_epoch_with_more_steps_than_samples_resumes(shards: Path) -> None:
    options: dict[str, Any] = {"pack": 2, "too_long": "split", "batch_size": 1}
    loader, resumed = make(shards, **options), make(shards, **options)
    _take(loader, N + 50)
    resumed.load_state_dict(loader.state_dict())
    assert len(list(resumed)) == len(loader) - N - 50


def test_set_epoch_begins_a_whole_epoch_after_a_resume_on_other_ranks(shards: Path) -> None:
    loaders = [make(shards, rank=rank, world_size=2) for rank in range(2)]
    for loader in loaders:
        _take(loader, 3)
    loader = make(shards)
    loader.load_state_dict(loaders[0].state_dict())
    assert len(list(loader)) < len(loader)
    loader.load_state_dict(loaders[0].state_dict())
    loader.set_epoch(1)
    loader.set_epoch(0)
    assert same(list(loader), list(make(shards)))


def test_states_of_other_loaders_are_refused(shards: Path) -> None:
    loader = make(shards)
    good = loader.state_dict()
    with pytest.raises(CheckpointError, match="batch_size was 8 and is 9"):
        make(shards, batch_size=9).load_state_dict(good)
    with pytest.raises(CheckpointError, match="boundaries had 8 entries and has 3"):
        make(shards, buckets=3).load_state_dict(good)
    with pytest.raises(CheckpointError, match=r"fields\[0\] was 'q' and is 'a'"):
        make(shards, fields=("a",)).load_state_dict(good)
    for part in ([0, 1], [1], [1, -1], [1, 2, 3], [True, 1]):
        with pytest.raises(CheckpointError, match=r"a part of an epoch is \(ranks, steps\)"):
            loader.load_state_dict({**good, "history": [part]})
    for missing in ("world_size", "history"):
        with pytest.raises(CheckpointError, match="not one of a TextLoader"):
            loader.load_state_dict({name: value for name, value in good.items() if name != missing})
    for bad in (None, {}, {**good, "world_size": "2"}):
        with pytest.raises(CheckpointError):
            loader.load_state_dict(bad)
    loader.load_state_dict({**good, "position": len(loader)})
    assert list(loader) == []
    assert loader.state_dict()["epoch"] == 1
    loader.load_state_dict({**good, "position": N - 1})
    with pytest.raises(CheckpointError, match=r"at step 96, beyond the end of its epoch \(steps: 16\)"):
        iter(loader)


def _global_batches(shards: Path, world_size: int, batch_size: int, state: Any, **options: Any) -> list[Any]:
    """The rows of each remaining global batch, sorted."""
    ranks = []
    for rank in range(world_size):
        arguments = {"columns": ("row", "mask"), "last_batch": "drop", **options}
        loader = make(shards, rank=rank, world_size=world_size, batch_size=batch_size, **arguments)
        if state is not None:
            loader.load_state_dict(state)
        rows = (batch.row[batch.mask].ravel() for batch in loader)
        ranks.append([rank_rows[rank_rows >= 0] for rank_rows in rows])
    return [sorted(itertools.chain(*(row.tolist() for row in step))) for step in zip(*ranks, strict=True)]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"last_batch": "pad"},
        {"last_batch": "partial"},
        {"buckets": None},
        {"fields": None, "last_batch": "partial"},
        {"pack": 40},
        {"pack": 40, "last_batch": "partial"},
        {"balance": "tokens"},
        {"balance": "tokens", "last_batch": "partial"},
    ],
)
def test_the_same_global_batch_of_another_batch_size_resumes_with_the_same_batches(
    shards: Path, options: dict[str, Any]
) -> None:
    arguments = {"last_batch": "drop", "columns": ("row", "mask"), **options}
    loader = make(shards, rank=0, world_size=4, batch_size=2, **arguments)
    _take(loader, 2)
    state = loader.state_dict()
    whole = _global_batches(shards, 4, 2, None, **options)
    assert len(whole) > 3
    for world_size, batch_size in ((2, 4), (1, 8), (4, 2), (8, 1)):
        assert _global_batches(shards, world_size, batch_size, state, **options) == whole[2:]
    if arguments["last_batch"] == "partial" and "pack" not in arguments and "fields" not in arguments:
        return
    # On a global batch of half the size, no sample is lost or repeated.
    rest = _global_batches(shards, 1, 4, state, **options)
    assert set(itertools.chain(*rest)).isdisjoint(itertools.chain(*whole[:2]))


def test_a_batch_size_that_does_not_fit_the_state_is_refused(shards: Path) -> None:
    dropping = make(shards, last_batch="drop", batch_size=6).state_dict()
    with pytest.raises(CheckpointError, match="not a whole number of batches"):
        make(shards, last_batch="drop", batch_size=4).load_state_dict(dropping)
    message = r"was 8 and is 4[\s\S]*Resume with batch_size=8, or with 8 samples of all ranks"
    with pytest.raises(CheckpointError, match=message):
        make(shards, batch_size=4).load_state_dict(make(shards, batch_size=8).state_dict())


@pytest.mark.parametrize("size", [{"batch_size": 8}, {"max_tokens": 160}])
def test_a_state_of_several_fields_with_buckets_resumes_with_its_buckets(
    shards: Path, size: dict[str, int]
) -> None:
    old = make(shards, fields=None, buckets=8, **size)  # the default of 0.1
    whole = list(old) + list(old)
    old = make(shards, fields=None, buckets=8, **size)
    _take(old, 3)
    state = old.state_dict()
    assert "method" not in state["identity"]
    loader = make(shards, fields=None, **size)
    assert loader.boundaries is None
    loader.load_state_dict(state)
    assert same(list(loader) + list(loader), whole[3:])
    assert make(shards, fields=None, buckets=8, **size).state_dict()["identity"] == state["identity"]
    with pytest.raises(CheckpointError, match="method was 'k-d split' and is None"):
        old.load_state_dict(make(shards, fields=None, **size).state_dict())
    with pytest.raises(CheckpointError, match="seed was 7 and is 8"):
        make(shards, fields=None, seed=8, **size).load_state_dict(state)


def test_an_epoch_keeps_its_buckets_through_several_batch_sizes(shards: Path) -> None:
    """All have 12 samples at each step, but would deal the last batches of buckets differently."""
    columns = ("row", "mask")
    state = make(shards, rank=0, world_size=4, batch_size=3, columns=columns).state_dict()
    whole = _global_batches(shards, 4, 3, None, last_batch="partial")
    received: list[list[int]] = []
    for world_size, batch_size, steps in ((4, 3, 2), (3, 4, 3), (6, 2, 1), (1, 12, 99)):
        received += _global_batches(shards, world_size, batch_size, state, last_batch="partial")[:steps]
        loader = make(shards, rank=0, world_size=world_size, batch_size=batch_size, columns=columns)
        loader.load_state_dict(state)
        _take(loader, steps)
        state = loader.state_dict()
    assert received == whole
    assert (state["epoch"], state["world_size"], state["identity"]["batch_size"]) == (1, 1, 12)
