"""The next use of cached blocks: when batches read them, and how many hits a cache has by it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.loaders import image_arguments, text_arguments

import stoker
from stoker import AspectBuckets, BlockShuffle, ImageLoader, Patches, TextLoader
from stoker.augment import CenterCrop
from stoker.benchmarks.storage.cache_policies import hit_rates, loader_misses
from stoker.pipeline.caching import next_use
from stoker.pipeline.caching.next_use import draws_of_order, make_next_use
from stoker.pipeline.caching.read_ahead import CacheHandle

TWO_RANKS = {"rank": 0, "world_size": 2}
IMAGES: dict[str, dict[str, Any]] = {
    "in order": {},
    "shuffled": {"shuffle": True},
    "blocks": {"shuffle": BlockShuffle(block=4, window=2)},
    "weighted": {"sampler": stoker.Weighted([1 + i % 3 for i in range(61)])},
    "repeated": {"shuffle": True, "sampler": stoker.Repeated(2)},
    "stream": {"shuffle": True, "steps_per_epoch": 7},
    "aspect buckets": {"sizes": AspectBuckets(area=64, multiple=8), "transforms": (), "shuffle": True},
    "patches": {"sizes": Patches(size=8, most=64, row=128), "transforms": (), "shuffle": True},
    "ratio groups": {"sizes": "padded", "aspect_ratio_group_factor": 3, "transforms": (), "shuffle": True},
    "ranks": {"shuffle": True, "rank": 0, "world_size": 3},
    "ranks by size": {"sizes": AspectBuckets(area=64, multiple=8), "transforms": (), **TWO_RANKS},
}
TEXTS: dict[str, dict[str, Any]] = {
    "buckets": {"batch_size": 4},
    "in order": {"batch_size": 4, "buckets": None, "shuffle": False},
    "packed": {"batch_size": 2, "pack": 60},
    "streams": {"batch_size": 2, "stream": 8},
    "weighted": {"batch_size": 4, "sampler": stoker.Weighted([1 + i % 3 for i in range(40)])},
}


@pytest.fixture
def uses(small_blocks: None, monkeypatch: pytest.MonkeyPatch) -> list[tuple[CacheHandle, Any, int]]:
    """The reads of batches, in their order: the cache, the blocks, and the moment.

    Which blocks a batch reads is not public.
    """
    reads: list[tuple[CacheHandle, Any, int]] = []
    monkeypatch.setattr(CacheHandle, "used", lambda *use: reads.append(use))
    return reads


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty texts of 1 to 60 bytes."""
    folder = tmp_path_factory.mktemp("texts")
    lines = ("x" * (1 + 7 * i % 60) for i in range(40))
    (folder / "texts.txt").write_text("\n".join(lines))
    stoker.convert_text(folder / "texts.txt", folder / "shards", tokenizer="bytes")
    return folder / "shards"


def check_uses(reads: list[tuple[CacheHandle, Any, int]], *, one_rank: bool = True) -> None:
    """Compare the next uses of blocks with the batches that came; other ranks use blocks in between."""
    for cache in {cache for cache, _, _ in reads}:
        batches = [(set(blocks.tolist()), moment) for reader, blocks, moment in reads if reader is cache]
        moments = [moment for _, moment in batches]
        assert cache.next_use is not None
        assert moments == sorted(set(moments))
        horizons = {epoch * cache.next_use.draws.moments for epoch in range(2, 8)}
        for index, (blocks, moment) in enumerate(batches):
            held = np.array(sorted(blocks))
            for block, after in zip(held.tolist(), cache.next_use.after(held, moment).tolist(), strict=True):
                later = (i for i in range(index + 1, len(batches)) if block in batches[i][0])
                following = next(later, len(batches))
                assert after > (moments[following - 1] if one_rank and after not in horizons else moment)
                assert following == len(batches) or after <= moments[following]


@pytest.mark.parametrize("kind", IMAGES)
def test_the_next_uses_of_image_blocks_are_those_of_the_batches(
    thumbnails: Path, tmp_path: Path, uses: list[Any], kind: str
) -> None:
    options = {"batch_size": 4, "transforms": [CenterCrop(8)], "cache_size": "8KB", **IMAGES[kind]}
    with ImageLoader(f"file://{thumbnails}", **image_arguments(cache=tmp_path, **options)) as loader:
        for _ in range(3):
            list(loader)
    check_uses(uses, one_rank="world_size" not in options)


def test_the_next_uses_in_selections_and_mixtures_are_those_of_the_batches(
    thumbnails: Path, squares: Path, tmp_path: Path, uses: list[Any]
) -> None:
    cached = {"cache": tmp_path, "cache_size": "8KB"}
    photos, scenes = (stoker.open(f"file://{path}", **cached) for path in (thumbnails, squares))
    selection = photos.select(np.arange(60, 0, -2))
    mixture = stoker.mix([(selection, 2), (scenes.select(np.arange(len(scenes))), 1)])
    for source in (selection, mixture):
        with ImageLoader(
            source, batch_size=4, transforms=[CenterCrop(8)], columns=("image",), shuffle=True
        ) as loader:
            for _ in range(3):
                list(loader)
    assert len({cache for cache, _, _ in uses}) == 3
    check_uses(uses)


@pytest.mark.parametrize("kind", TEXTS)
def test_the_next_uses_of_text_blocks_are_those_of_the_batches(
    texts: Path, tmp_path: Path, uses: list[Any], kind: str
) -> None:
    with TextLoader(
        f"file://{texts}", **text_arguments(cache=tmp_path, cache_size="8KB", **TEXTS[kind])
    ) as loader:
        for _ in range(3):
            list(loader)
    check_uses(uses)


def test_an_order_that_is_too_long_has_no_next_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = np.arange(10)
    draws = draws_of_order(BlockShuffle(10, 0), stoker.mix)  # type: ignore[arg-type]  # nothing is drawn
    assert make_next_use(draws, blocks, blocks) is not None
    # Users meet the limit only with more than 20 million draws.
    monkeypatch.setattr(next_use, "_MOST", 9)
    assert make_next_use(draws, blocks, blocks) is None


@pytest.mark.parametrize("samples", [1, 4])
def test_the_cache_has_the_hit_rate_of_the_optimum(samples: int) -> None:
    for share in (0.1, 0.25, 0.5):
        rates = hit_rates(blocks=100, samples=samples, share=share, seed=3)
        assert rates.least_recent < rates.next_use == rates.optimum


def test_a_loader_fetches_fewer_blocks_than_with_least_recent_use(
    pack_images: Callable[..., Path], tmp_path: Path
) -> None:
    n, side = 64, 256
    sizes = {"codec": np.zeros(n), "height": np.full(n, side), "width": np.full(n, side)}
    shards = pack_images([bytes([i]) * (3 * side**2) for i in range(n)], **sizes)
    misses = loader_misses(shards, tmp_path / "cache", room=24, batch_size=4)
    # The cache also holds the blocks of the batches ahead, so it does not reach the optimum.
    assert misses.optimum <= misses.loader < (misses.optimum + misses.least_recent) / 2 < misses.uses
