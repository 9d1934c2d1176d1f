"""Passes that an error of the loader has stopped: the rest of them comes next, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from helpers.datasets import flip_bit
from helpers.shards import write_shards

from stoker import ImageLoader, TextLoader
from stoker.augment import Resize
from stoker.errors import CorruptRecordError, LoaderClosedError
from stoker.formats.open import open as open_dataset
from stoker.pipeline.adapters import LoaderView


@pytest.fixture
def folder(make_dataset: Callable[..., Path], make_jpeg: Callable[..., bytes]) -> Path:
    return make_dataset(payloads=[make_jpeg(i) for i in range(20)])


def load(folder: Path, **options: Any) -> ImageLoader:
    defaults = {"batch_size": 2, "columns": ("row",), "shuffle": True, "num_threads": 1}
    return ImageLoader(folder, transforms=[Resize((8, 8))], **{**defaults, **options})


def receive(batches: Iterable[Any], received: list[int]) -> None:
    for batch in batches:
        received += batch.row.tolist()


def epochs(loader: ImageLoader | TextLoader, n: int) -> list[list[int]]:
    """Rows of the next ``n`` epochs."""
    orders: list[list[int]] = []
    for _ in range(n):
        orders.append([])
        receive(loader, orders[-1])
    return orders


@pytest.mark.parametrize("position", [0, 8, 18])
@pytest.mark.parametrize("view", [iter, LoaderView])
def test_the_next_pass_continues_where_an_error_stopped_one(
    folder: Path, position: int, view: Callable[[ImageLoader], Iterable[Any]]
) -> None:
    with load(folder) as whole:
        orders = epochs(whole, 2)
    damaged = open_dataset(folder)
    flip_bit(damaged, orders[0][position])
    received: list[int] = []
    with load(folder) as loader:
        batches = view(loader)
        for _ in range(2):  # the damage is there the second time, too
            with pytest.raises(CorruptRecordError):
                receive(batches if view is LoaderView else iter(loader), received)
            assert received == orders[0][:position]
            assert (loader.state_dict()["epoch"], loader.state_dict()["position"]) == (0, position)
        flip_bit(damaged, orders[0][position])
        receive(batches if view is LoaderView else iter(loader), received)
        assert received == orders[0]
        assert epochs(loader, 1) == orders[1:]


def test_an_iterator_that_an_error_stopped_raises_instead_of_ending(folder: Path) -> None:
    flip_bit(open_dataset(folder), 8)
    with load(folder, shuffle=False) as loader:
        batches = iter(loader)
        with pytest.raises(CorruptRecordError):
            receive(batches, [])
        with pytest.raises(LoaderClosedError, match="by a newer pass or by an error"):
            next(batches)


def test_an_epoch_that_is_set_after_an_error_runs_from_its_beginning(folder: Path) -> None:
    with load(folder) as whole:
        orders = epochs(whole, 1)
    damaged = open_dataset(folder)
    flip_bit(damaged, orders[0][8])
    with load(folder) as loader:
        with pytest.raises(CorruptRecordError):
            receive(loader, [])
        flip_bit(damaged, orders[0][8])
        loader.set_epoch(0)
        assert epochs(loader, 1) == orders


def test_the_next_pass_over_text_continues_where_an_error_stopped_one(tmp_path: Path) -> None:
    folder = write_shards(tmp_path)
    options: dict[str, Any] = {"batch_size": 2, "columns": ("row",), "shuffle": True, "fields": ("q",)}
    with TextLoader(folder, **options) as whole:
        orders = epochs(whole, 2)
    damaged, row = open_dataset(folder), orders[0][len(orders[0]) // 2]
    flip_bit(damaged, row)
    received: list[int] = []
    with TextLoader(folder, **options) as loader:
        with pytest.raises(CorruptRecordError):
            receive(loader, received)
        assert 0 < len(received) < len(orders[0])
        flip_bit(damaged, row)
        receive(loader, received)
        assert [received, *epochs(loader, 1)] == orders
