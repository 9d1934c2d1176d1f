"""A loader with a cache over HTTP: the same batches as a local one, or a clear error, and no hang."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.loaders import loader, received
from helpers.processes import wait_until
from helpers.warm_python import WarmPython

import stoker
from stoker.errors import ConfigError, CorruptRecordError, DatasetError, StorageError, WriteError
from stoker.pipeline.caching.read_ahead import BatchReads, CachePrefetcher
from stoker.pipeline.order.orders import BlockShuffle

SHARD = "shard-00001-of-00004.tfrecord"


def cached_bytes(cache: Path) -> int:
    """The bytes of all blocks that the cache holds."""
    return sum(4096 * np.count_nonzero(np.fromfile(state, np.uint8)) for state in cache.glob("*/.blocks"))


@pytest.mark.parametrize("shuffle", [False, True, BlockShuffle(1, block=16, window=2)])
@pytest.mark.parametrize("mapped", [True, False])
def test_batches_are_those_of_a_local_dataset(
    source: Path, tmp_path: Path, server: Any, shuffle: Any, mapped: bool
) -> None:
    options = {"shuffle": shuffle, "mapped": mapped}
    with loader(source, **options) as local, loader(server.url, cache=tmp_path, **options) as remote:
        assert received(remote) == received(local)
        asked = len(server.requests)
        assert received(remote) == received(local)
        assert len(server.requests) == asked
        assert remote.state_dict() == local.state_dict()
    assert 1 <= server.count("dataset.json") <= 2


def test_the_cache_stays_within_its_size(source: Path, tmp_path: Path, server: Any) -> None:
    size = 40 * 4096  # a batch of two has up to six blocks, and more are in flight
    whole = sum(file.stat().st_size for file in source.glob("*.tfrecord"))
    assert size < 0.7 * whole
    options = {"batch_size": 2, "prefetch": 1}
    with (
        loader(source, **options) as local,
        loader(server.url, cache=tmp_path, cache_size=size, **options) as remote,
    ):
        for _ in range(2):
            batches = []
            for batch in remote:
                batches.append((batch.row.tolist(), batch.image.tobytes()))
                assert cached_bytes(tmp_path) <= size
            assert batches == received(local)
        evicted = remote.stats().counters.bytes_evicted
    fetched = sum(stop - start for name, start, stop in server.requests if name.endswith(".tfrecord"))
    assert fetched > whole
    assert evicted > 0


def test_a_size_that_is_too_small_costs_time_only(source: Path, tmp_path: Path, server: Any) -> None:
    with loader(source) as local, loader(server.url, cache=tmp_path, cache_size=4096) as remote:
        assert received(remote) == received(local)


@pytest.mark.parametrize("free", [None, 1 << 40])
def test_a_full_disk_costs_time_only(
    source: Path, tmp_path: Path, server: Any, monkeypatch: pytest.MonkeyPatch, free: int | None
) -> None:
    """Whether the loader sees the free space, or another program takes it."""
    size, pwrite, statvfs = 40 * 4096, os.pwrite, os.statvfs
    assert size < 0.7 * sum(file.stat().st_size for file in source.glob("*.tfrecord"))

    def write_if_room(file: int, data: bytes, offset: int) -> int:
        if cached_bytes(tmp_path) + len(data) > size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return pwrite(file, data, offset)

    def stated(path: Any) -> os.statvfs_result:
        values = list(statvfs(path))
        values[1], values[4] = 1, max(0, size - cached_bytes(tmp_path)) if free is None else free
        return os.statvfs_result(values)

    monkeypatch.setattr(os, "pwrite", write_if_room)
    monkeypatch.setattr(os, "statvfs", stated)
    # Users choose no amount; the default is larger than this dataset.
    ahead = 1 << 30 if free is None else 16 * 4096
    monkeypatch.setitem(CachePrefetcher.__init__.__kwdefaults__, "ahead", ahead)
    options = {"batch_size": 2, "prefetch": 1}
    with loader(source, **options) as local, loader(server.url, cache=tmp_path, **options) as remote:
        for _ in range(2):
            assert received(remote) == received(local)
    opened = stoker.open(server.url, cache=tmp_path)
    assert [opened.read(row) for row in range(156)] == [stoker.open(source).read(row) for row in range(156)]


def test_the_first_batch_comes_before_the_whole_dataset_is_fetched(
    source: Path, tmp_path: Path, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Users choose no amount; the default is larger than this dataset.
    monkeypatch.setitem(CachePrefetcher.__init__.__kwdefaults__, "ahead", 30 * 4096)
    with loader(server.url, cache=tmp_path, prefetch=1) as remote:
        next(iter(remote))
        whole = [file.stat().st_size for file in source.glob("*.tfrecord")]
        assert cached_bytes(tmp_path) < 0.7 * sum(whole)


@pytest.mark.parametrize(
    ("faults", "corrupt"), [(("drop", "refuse"), {}), ((), {SHARD: 3, "index.arrow": 1})]
)
def test_dropped_connections_and_damaged_answers_change_no_batch(
    source: Path, tmp_path: Path, server: Any, faults: tuple[str, ...], corrupt: dict[str, int]
) -> None:
    server.faults, server.corrupt = faults, dict(corrupt)
    with loader(source) as local, loader(server.url, cache=tmp_path) as remote:
        assert received(remote) == received(local)
    assert not any(server.corrupt.values())


@pytest.mark.filterwarnings("ignore:a bad sample was")
def test_a_sample_that_is_damaged_on_the_server_is_a_bad_sample(tmp_path: Path, server: Any) -> None:
    server.corrupt = {SHARD: 10**6}
    with (
        loader(server.url, cache=tmp_path / "a") as remote,
        pytest.raises(CorruptRecordError, match="checksum") as caught,
    ):
        received(remote)
    assert (caught.value.shard, caught.value.path) == (SHARD, f"{server.url}/{SHARD}")
    with loader(server.url, cache=tmp_path / "b", on_error="skip", max_bad=1.0) as remote:
        rows = [row for batch, _ in received(remote) for row in batch]
        assert 0 < remote.stats().skipped < 156
        assert len(rows) == 156 - remote.stats().skipped


def test_a_dead_server_is_an_error_and_the_loader_goes_on_when_it_is_back(
    source: Path, tmp_path: Path, server: Any, new_threads: Callable[[str], list[threading.Thread]]
) -> None:
    with loader(server.url, cache=tmp_path) as remote:
        server.closed.set()
        with pytest.raises(StorageError, match="cannot be read") as caught:
            received(remote)
        assert str(caught.value.path).startswith(f"{server.url}/shard-")
        # A failed request that has not been removed yet would fail the next pass, too. Requests are not
        # visible from outside.
        wait_until(lambda: not new_threads("stoker-read-ahead"))
        handles = remote.pipeline.cached._handles.values()
        wait_until(lambda: not any(handle.requests.coming_bytes for handle in handles))
        server.closed.clear()
        remote.set_epoch(0)
        with loader(source) as local:
            assert received(remote) == received(local)
    server.closed.set()
    with pytest.raises(StorageError) as caught:
        loader(server.url, cache=tmp_path)
    assert str(caught.value.path).startswith(server.url)


def test_two_ranks_share_a_cache(
    source: Path, tmp_path: Path, serve: Callable[[Path], Any], warm_python: WarmPython
) -> None:
    code = """
import json, sys, stoker
from stoker.augment import CenterCrop, Resize
rank, epochs = int(sys.argv[1]), []
for url, cache, size in json.loads(sys.argv[2]):
    reading, ranks = stoker.Reading(cache=stoker.Cache(cache, size)), stoker.Ranks(rank, 2)
    with stoker.ImageLoader(url, reading=reading, batch_size=4, shuffle=True, seed=3,
                            engine="native", ranks=ranks, columns=("image", "row"), num_threads=1,
                            transforms=[Resize(32), CenterCrop(32)]) as loader:
        epochs.append([[batch.row.tolist(), float(batch.image.astype("float64").sum())] for batch in loader])
print(json.dumps(epochs))
"""
    with loader(source, batch_size=1) as local:
        sums = {batch.row[0]: float(batch.image.astype("float64").sum()) for batch in local}
    servers = {size: serve(source) for size in (None, "500KB")}
    caches = json.dumps([(server.url, str(tmp_path / str(size)), size) for size, server in servers.items()])
    ranks = [warm_python.start(code, rank, caches) for rank in range(2)]
    answers = [json.loads(rank.output()) for rank in ranks]
    for of_ranks in zip(*answers, strict=True):
        batches = [batch for batches in of_ranks for batch in batches]
        assert sorted(row for rows, _ in batches for row in rows) == list(range(156))
        for rows, total in batches:
            assert total == pytest.approx(sum(sums[row] for row in rows))
    # Without a size each block is fetched once, by the rank that needs it first.
    asked = [stop - start for name, start, stop in servers[None].requests if name.endswith(".tfrecord")]
    assert sum(asked) == sum(file.stat().st_size for file in source.glob("*.tfrecord"))
    assert servers[None].count("index.arrow") == 1


def test_wrong_arguments_are_refused(source: Path, tmp_path: Path, server: Any) -> None:
    with pytest.raises(ConfigError, match="a loader reads local files") as caught:
        loader(server.url)
    assert caught.value.path == server.url
    assert "stoker stage" in str(caught.value)
    with pytest.raises(ConfigError, match="cache needs a dataset that is named by its URL"):
        loader(stoker.open(source), cache=tmp_path)
    with pytest.raises(ConfigError, match="cache_size must be a number of bytes"):
        loader(server.url, cache=tmp_path, cache_size="much")
    with pytest.raises(DatasetError, match="not a dataset"):
        loader(f"{server.url}/nowhere", cache=tmp_path)


def test_a_cache_that_cannot_be_written_is_an_error_that_says_what_to_do(
    tmp_path: Path, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(WriteError, match="the cache cannot be written: Not a directory") as caught:
        loader(server.url, cache=file)
    assert str(caught.value.path).startswith(str(file))
    assert "Name a folder with cache=" in str(caught.value)

    def is_full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    opened = stoker.open(server.url, cache=tmp_path / "cache")
    with loader(opened) as remote:
        monkeypatch.setattr(os, "pwrite", is_full)
        with pytest.raises(WriteError, match="the disk of the cache is full") as full:
            received(remote)
        with pytest.raises(WriteError, match="the disk of the cache is full"):
            opened.read(0)
    assert "smaller batch_size or prefetch" in str(full.value)


def test_a_dataset_at_a_path_can_be_cached_too(source: Path, tmp_path: Path) -> None:
    with loader(source) as local, loader(source, cache=tmp_path) as remote:
        assert received(remote) == received(local)
        assert repr(remote.dataset).startswith(f"<Dataset '{source}'")


def test_requests_grow_longer_when_blocks_are_read_in_order(tmp_path: Path, server: Any) -> None:
    prefetcher = CachePrefetcher(stoker.open(server.url, cache=tmp_path))
    cached_epoch = prefetcher.begin(lambda: map(BatchReads, np.split(np.arange(156), 39)))
    for _ in range(39):
        cached_epoch.wait()
        cached_epoch.release()
    prefetcher.close()
    lengths = {(name, start): stop - start for name, start, stop in server.requests if "shard" in name}
    assert len(lengths) < 30
    assert max(lengths.values()) > 4 * lengths["shard-00000-of-00004.tfrecord", 0]
