"""Selections from remote datasets, and mixtures of them: the same batches, and only the blocks needed."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers.loaders import loader
from helpers.processes import wait_until

import stoker
from stoker.errors import ConfigError, CorruptRecordError, DatasetError
from stoker.pipeline.caching.read_ahead import CacheReadAhead

PHOTOS = Path(__file__).parents[3] / "examples" / "photos"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two datasets of the same 156 small photographs in different orders."""
    folder = tmp_path_factory.mktemp("sources")
    for name, seed in (("a", 0), ("b", 1)):
        stoker.convert(
            PHOTOS,
            folder / name,
            resize="shorter=64",
            seed=seed,
            source_options=stoker.SourceOptions(class_depth=1),
            storage=stoker.ImageStorage(shards=3),
        )
    return folder


def epoch(loading: stoker.ImageLoader) -> list[list[bytes]]:
    return [[column.tobytes() for column in batch] for batch in loading]


def check_same(local: Any, remote: Any, **options: Any) -> None:
    with loader(local, **options) as here, loader(remote, **options) as there:
        for _ in range(2):
            assert epoch(there) == epoch(here)
        assert there.state_dict() == here.state_dict()


@pytest.mark.parametrize("size", [None, "200KB"])
def test_a_selection_fetches_only_the_blocks_that_it_needs(
    source: Path, tmp_path: Path, server: Any, size: str | None
) -> None:
    whole = stoker.open(f"{server.url}/a", cache=tmp_path, cache_size=size)
    local = stoker.open(source / "a")
    assert repr(whole.select("label == 1")).startswith(f"<Dataset '{server.url}/a'")
    assert not server.count(".tfrecord")
    check_same(local.select("label == 1"), whole.select("label == 1"))
    check_same(local.select([5, 3, 3, 150]), whole.select([5, 3, 3, 150]), batch_size=2)
    asked = sum(stop - start for name, start, stop in server.requests if name.endswith(".tfrecord"))
    assert asked < 0.9 * sum(local.data_sizes)
    assert server.count("index.arrow") == 1


def test_two_loaders_share_a_cache_at_the_same_time(source: Path, tmp_path: Path, server: Any) -> None:
    local, whole = (
        stoker.open(source / "a"),
        stoker.open(f"{server.url}/a", cache=tmp_path, cache_size="100KB"),
    )
    with loader(whole.split(0.5)[0]) as first, loader(whole.split(0.5)[1]) as second:
        received: list[list[Any]] = [[], []]
        batches = [iter(first), iter(second)]
        for _ in range(6):
            for i in range(2):
                received[i].append([column.tobytes() for column in next(batches[i])])
    for part, expected in zip(received, local.split(0.5), strict=True):
        with loader(expected) as here:
            assert part == epoch(here)[:6]


def test_a_mixture_of_remote_datasets_has_the_batches_of_a_local_one(
    source: Path, tmp_path: Path, server: Any
) -> None:

    def mixed(a: stoker.Dataset, b: stoker.Dataset) -> stoker.Mixture:
        return stoker.mix([(a, 0.5), (b.select(np.arange(40, 100)), 0.3), (source / "b", 0.2)], samples=200)

    remote = [stoker.open(f"{server.url}/{name}", cache=tmp_path, cache_size="300KB") for name in "ab"]
    check_same(mixed(*(stoker.open(source / name) for name in "ab")), mixed(*remote))
    check_same(stoker.mix([(source / "a", 1)]), stoker.mix([(remote[0], 1)]), batch_size=3, last_batch="pad")


def test_samples_are_read_within_the_size_of_the_cache_which_closes_its_files(
    source: Path, tmp_path: Path, server: Any
) -> None:
    local, remote = (
        stoker.open(source / "a"),
        stoker.open(f"{server.url}/a", cache=tmp_path, cache_size="64KB"),
    )
    server.corrupt = {shard.name: 2 for shard in local.manifest.shards}
    for position in range(0, 156, 5):
        assert remote.read(position) == local.read(position)
        assert remote.select([position]).read(0) == local.read(position)
    (state,) = tmp_path.glob("*/.blocks")
    assert np.count_nonzero(np.fromfile(state, np.uint8)) * 4096 <= 64_000
    assert state.resolve() in descriptors()
    del remote
    gc.collect()
    wait_until(lambda: state.resolve() not in descriptors())


def descriptors() -> set[Path]:
    return {descriptor.resolve() for descriptor in Path("/proc/self/fd").iterdir()}


def test_reading_a_sample_that_is_damaged_on_the_server_is_an_error(tmp_path: Path, server: Any) -> None:
    remote = stoker.open(f"{server.url}/a", cache=tmp_path)
    server.corrupt = dict.fromkeys([shard.name for shard in remote.manifest.shards], 10**6)
    damaged = [position for position in range(0, 156, 5) if not is_intact(remote, position)]
    assert damaged
    with pytest.raises(CorruptRecordError, match="checksum") as caught:
        remote.read(damaged[0])
    assert str(caught.value.path).startswith(f"{server.url}/a/shard-")
    assert caught.value.key


def is_intact(dataset: stoker.Dataset, position: int) -> bool:
    try:
        dataset.read(position)
    except CorruptRecordError:
        return False
    return True


def test_wrong_arguments_are_refused(source: Path, tmp_path: Path, server: Any) -> None:
    with pytest.raises(ConfigError, match="cache_size needs cache"):
        stoker.open(source / "a", cache_size="1GB")
    with pytest.raises(ConfigError, match="cache_size must be a number of bytes"):
        stoker.open(f"{server.url}/a", cache=tmp_path, cache_size="much")
    with pytest.raises(DatasetError, match="at a URL, not on a disk") as caught:
        stoker.mix([(f"{server.url}/a", 1)])
    assert "cache=" in str(caught.value)
    with pytest.raises(ConfigError, match=r"stoker\.open\(url, cache="):
        loader(stoker.open(source / "a"), cache=tmp_path)


def test_selections_and_mixtures_of_text_have_the_batches_of_local_ones(
    text: Path, tmp_path: Path, serve: Callable[[Path], Any]
) -> None:
    whole = {"here": stoker.open(text), "there": stoker.open(serve(text).url, cache=tmp_path)}
    parts = {side: dataset.select(np.arange(150, 20, -1)) for side, dataset in whole.items()}
    mixed = {side: stoker.mix([(whole[side], 0.5), (parts[side], 0.5)]) for side in whole}
    for sources in (parts, mixed):
        loaders = [
            stoker.TextLoader(sources[side], batch_size=8, shuffle=True, columns=("input_ids", "row"))
            for side in ("here", "there")
        ]
        for here, there in zip(*loaders, strict=True):
            for expected, found in zip(here, there, strict=True):
                np.testing.assert_array_equal(found, expected)
        for loading in loaders:
            loading.close()


def test_an_error_of_the_read_ahead_is_raised_where_its_batch_is_waited_for() -> None:
    def batches() -> Iterator[Any]:
        yield from [1 / 0]

    files = SimpleNamespace(blocks=SimpleNamespace(block_bytes=1, present_bytes=0, free_bytes=8))
    source: Any = SimpleNamespace(dataset=SimpleNamespace(limit=None), files=files, requests=None)
    walk = CacheReadAhead(source, batches(), ahead=8)
    walk.run()
    with pytest.raises(ZeroDivisionError):
        walk.wait()
