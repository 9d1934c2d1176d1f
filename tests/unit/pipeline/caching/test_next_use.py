"""The next use of cached blocks: as the order draws them, and best for what the cache holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from stoker import AspectBuckets, ImageLoader
from stoker.augment import CenterCrop
from stoker.benchmarks.storage.cache_policies import hit_rates, loader_misses
from stoker.pipeline.caching import cache_prefetcher
from stoker.pipeline.caching.next_use import NextUse, make_next_use
from stoker.pipeline.order.epoch_order import BlockShuffle, FullShuffle, Sequential


@pytest.mark.parametrize("order", [FullShuffle(97, 5), Sequential(97)])
def test_the_next_use_is_that_of_the_draws(order: FullShuffle | Sequential) -> None:
    first = np.arange(97) * 3 // 7  # a sample lies in one block or two
    last = np.maximum.accumulate(first + (np.arange(97) % 3 == 0))
    made = make_next_use(order, first, last)
    assert isinstance(made, NextUse)
    draws = np.concatenate([order.positions(epoch, np.arange(97)) for epoch in range(4)])
    blocks = np.arange(first.max() + 1)
    for draw in (0, 50, 96, 97, 180):
        expected = []
        for block in blocks.tolist():
            uses = np.flatnonzero(((first <= block) & (last >= block))[draws])
            expected.append(int(uses[uses > draw][0]))
        assert made.after(blocks, draw).tolist() == expected


def test_other_orders_tell_nothing() -> None:
    blocks = np.arange(10)
    assert make_next_use(BlockShuffle(10, 0), blocks, blocks) is None
    assert make_next_use(FullShuffle(11, 0), blocks, blocks) is None
    assert make_next_use(FullShuffle(10, 0), blocks[::-1], blocks) is None


@pytest.mark.parametrize("samples", [1, 4])
def test_the_cache_has_the_hits_of_the_optimum(samples: int) -> None:
    for share in (0.1, 0.25, 0.5):
        found = hit_rates(blocks=100, samples=samples, share=share, seed=3)
        assert found.least_recent < found.next_use == found.optimum


@pytest.mark.parametrize("planned", [False, True])
def test_batches_that_are_planned_by_sizes_have_another_order(
    thumbnails: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planned: bool
) -> None:
    orders: list[object] = []
    monkeypatch.setattr(cache_prefetcher, "make_next_use", lambda order, *_: orders.append(order))
    with ImageLoader(
        f"file://{thumbnails}",
        cache=tmp_path,
        cache_size="1MB",
        batch_size=4,
        transforms=() if planned else [CenterCrop(8)],
        sizes=AspectBuckets(area=64, multiple=8) if planned else None,
    ) as loader:
        next(iter(loader))
    assert orders == ([] if planned else [Sequential(61)])


def test_a_loader_fetches_less_than_with_least_recent_use(
    pack_images: Callable[..., Path], tmp_path: Path
) -> None:
    n, side = 64, 256
    sizes = {"codec": np.zeros(n), "height": np.full(n, side), "width": np.full(n, side)}
    shards = pack_images([bytes([i]) * (3 * side**2) for i in range(n)], **sizes)
    found = loader_misses(shards, tmp_path / "cache", room=24, batch_size=4)
    # The blocks of the batches ahead stay in the cache, too, which costs some of the optimum.
    assert found.optimum <= found.loader < (found.optimum + found.least_recent) / 2 < found.uses
