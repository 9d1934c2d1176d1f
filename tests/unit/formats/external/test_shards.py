"""Tests of external shards at URLs: indexed into a folder or at the URL, loaded with a cache, staged."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb as py_lmdb
import numpy as np
import pytest
from helpers.data.pictures import encode

import stoker
from stoker.augment import Resize
from stoker.errors import CorruptRecordError, DatasetError, SourceError, StorageError
from stoker.formats.caching.stage import stage
from stoker.formats.containers import tfrecord
from stoker.formats.containers.messages.datum import encode_datum
from stoker.formats.containers.messages.example import encode_example
from stoker.formats.external import external_index
from stoker.formats.external import shards as external_shards
from stoker.formats.remote.store import Store

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk", "short_pauses")

ROOT = "memory://bucket/shards"


@pytest.fixture
def shards(tmp_path: Path, memory: Any, make_jpeg: Callable[..., bytes]) -> dict[str, list[Path]]:
    """Two shards of each container, on the disk and at ``ROOT``."""
    folder = tmp_path / "shards"
    folder.mkdir()
    made: dict[str, list[Path]] = {"tfrecord": [], "lmdb": []}
    for number in range(2):
        images = [make_jpeg(3 * number + i) for i in range(3)]
        made["tfrecord"].append(folder / f"train-{number}.tfrecord")
        with tfrecord.TFRecordWriter(made["tfrecord"][-1]) as writer:
            for i, image in enumerate(images):
                example = {"image/encoded": image, "image/class/label": [i]}
                writer.write(b"", encode_example(example)[0], b"", b"")
            writer.finish()
        made["lmdb"].append(folder / f"lmdb-{number}")
        with py_lmdb.open(os.fspath(made["lmdb"][-1]), map_size=1 << 20) as env, env.begin(write=True) as txn:
            for i, image in enumerate(images):
                around = encode_datum(payload_bytes=len(image), height=1, width=1, label=i)
                txn.put(b"%d" % i, image.join(around))
    for file in folder.rglob("*"):
        if file.is_file() and file.name != "lock.mdb" and file.suffix != ".idx":
            memory.pipe(f"/bucket/shards/{file.relative_to(folder)}", file.read_bytes())
    return made


def urls(shards: dict[str, list[Path]], container: str) -> list[str]:
    return [f"{ROOT}/{path.name}" for path in shards[container]]


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
@pytest.mark.parametrize("at_url", [True, False])
def test_they_are_loaded_and_staged_like_any_other(
    shards: dict[str, list[Path]], tmp_path: Path, memory: Any, container: str, at_url: bool
) -> None:
    before = memory.find("/bucket/shards")
    expected = external_index.index(shards[container], tmp_path / "expected")
    into = ROOT if at_url else tmp_path / "into"
    named = [f"{ROOT}/train-*.tfrecord"] if container == "tfrecord" else urls(shards, container)
    manifest = external_index.index(named, into)
    assert manifest.fingerprint == expected.fingerprint
    assert [shard.path for shard in manifest.shards] == [
        url.removeprefix(f"{ROOT}/") if at_url else url for url in urls(shards, container)
    ]
    if not at_url:
        assert memory.find("/bucket/shards") == before
        assert sorted(path.name for path in (tmp_path / "into").glob("[!.]*") if path.suffix != ".idx") == [
            "dataset.json",
            "index.arrow",
        ]
        with pytest.raises(DatasetError, match="its shards lie elsewhere") as caught:
            stoker.open(into)
        assert "cache=" in str(caught.value)
    here = stoker.open(tmp_path / "expected")
    there = stoker.open(into, cache=tmp_path / "cache")
    assert [there.read(i) for i in range(6)] == [here.read(i) for i in range(6)]
    options: dict[str, Any] = {"batch_size": 6, "transforms": [Resize((8, 8))], "num_threads": 1}
    with (
        stoker.ImageLoader(into, cache=tmp_path / "second cache", **options) as loader,
        stoker.ImageLoader(here, **options) as local,
    ):
        for found, wanted in zip(next(iter(loader)), next(iter(local)), strict=True):
            np.testing.assert_array_equal(found, wanted)
    stage(into, tmp_path / "staged")
    staged = stoker.open(tmp_path / "staged")
    assert staged.fingerprint == here.fingerprint
    for index in (tmp_path / "expected").glob("*.idx"):
        assert (tmp_path / "staged" / index.name).read_bytes() == index.read_bytes()
    assert [staged.read(i) for i in range(6)] == [here.read(i) for i in range(6)]


def test_they_may_be_on_a_mounted_disk(shards: dict[str, list[Path]], tmp_path: Path) -> None:
    for container, paths in shards.items():
        manifest = external_index.index([f"file://{path}" for path in paths], tmp_path / f"{container} there")
        assert manifest.container == container
        assert manifest.fingerprint == external_index.index(paths, tmp_path / f"{container} here").fingerprint


def test_a_shard_may_take_several_requests(tmp_path: Path, memory: Any) -> None:
    rng = np.random.default_rng(0)
    with tfrecord.TFRecordWriter(tmp_path / "x.tfrecord") as writer:
        for i in range(3):
            image = encode(rng.integers(0, 256, (1200, 1200, 3), np.uint8), "PNG")
            writer.write(b"", encode_example({"image/encoded": image, "image/class/label": [i]})[0], b"", b"")
        writer.finish()
    data = (tmp_path / "x.tfrecord").read_bytes()
    assert len(data) > 8 << 20
    memory.pipe("/bucket/x.tfrecord", data)
    here, there = ([f"{root}/x.tfrecord"] for root in (tmp_path, "memory://bucket"))
    expected = external_index.index(here, tmp_path / "here").fingerprint
    assert external_index.index(there, tmp_path / "there").fingerprint == expected


def test_errors_name_where_a_shard_lies(shards: dict[str, list[Path]], tmp_path: Path, memory: Any) -> None:
    damaged = bytearray(memory.cat_file("/bucket/shards/train-0.tfrecord"))
    damaged[40] ^= 1
    with tfrecord.TFRecordWriter(tmp_path / "other") as writer:
        writer.write(b"", encode_example({"other": b"x"})[0], b"", b"")
        writer.finish()
    memory.pipe("/bucket/shards/train-0.tfrecord", bytes(damaged))
    memory.pipe("/bucket/shards/train-1.tfrecord", (tmp_path / "other").read_bytes())
    for url, message in zip(
        urls(shards, "tfrecord"), ("checksum does not match", "no bytes in"), strict=True
    ):
        with pytest.raises((CorruptRecordError, SourceError), match=message) as caught:
            external_index.index([url], tmp_path / "into")
        assert caught.value.path == url
        assert not list((tmp_path / "into").glob("[!.]*"))


def test_a_bad_sample_is_named_by_the_url_of_its_shard(
    shards: dict[str, list[Path]], tmp_path: Path, memory: Any
) -> None:
    external_index.index(urls(shards, "tfrecord"), tmp_path / "into")
    data = bytearray(memory.cat_file("/bucket/shards/train-1.tfrecord"))
    data[200] ^= 1
    memory.pipe("/bucket/shards/train-1.tfrecord", bytes(data))
    dataset = stoker.open(tmp_path / "into", cache=tmp_path / "cache")
    with pytest.raises(CorruptRecordError) as caught:
        dataset.read(3)
    assert caught.value.path == f"{ROOT}/train-1.tfrecord"
    with pytest.raises(StorageError, match="arrives damaged") as damaged:
        stage(tmp_path / "into", tmp_path / "staged")
    assert damaged.value.path == f"{ROOT}/train-1.tfrecord"


def test_invalid_arguments_are_refused(shards: dict[str, list[Path]], tmp_path: Path, memory: Any) -> None:
    url, here = urls(shards, "tfrecord")[0], shards["tfrecord"][1]
    for paths, into, message in (
        ([url, url], tmp_path, "named more than once"),
        ([f"{ROOT}/none.tfrecord"], tmp_path, "no such shard of tfrecord"),
        ([f"{ROOT}/none-*"], tmp_path, "no file matches the pattern"),
        ([here], ROOT, "has its shards in its folder"),
        ([url], "memory://bucket/other", "has its shards in its folder"),
    ):
        with pytest.raises(SourceError, match=message):
            external_index.index(paths, into)
    external_index.index([url], ROOT)
    with pytest.raises(DatasetError, match="there is a dataset already") as caught:
        external_index.index([url], ROOT)
    assert caught.value.path == ROOT


def test_shards_on_a_disk_and_at_urls_do_not_mix(shards: dict[str, list[Path]], tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="some shards are at URLs and some on a disk"):
        external_index.index([shards["tfrecord"][0], urls(shards, "tfrecord")[1]], tmp_path / "into")


def test_a_folder_whose_name_begins_alike_is_another() -> None:
    shard = external_shards.ExternalShard(f"{ROOT}-2/x.tfrecord", f"{ROOT}-2/x.tfrecord", 1)
    with pytest.raises(SourceError, match="this one is not in"):
        shard.location(ROOT)
    assert shard.location(f"{ROOT}-2") == "x.tfrecord"


def test_credentials_do_not_get_into_the_dataset(tmp_path: Path) -> None:
    url = "https://user:SECRET@host/x.tfrecord?X-Amz-Signature=SECRET"
    shard = external_shards.ExternalShard(url, url, 10)
    assert shard.location(tmp_path) == "https://host/x.tfrecord"


def test_credentials_do_not_get_into_an_error_of_the_storage(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store("memory://user:SECRET@bucket/shards")
    assert "SECRET" not in repr(store)

    def refuse(self: Any, path: str) -> None:
        raise PermissionError(f"no access to {path} for SECRET")

    monkeypatch.setattr(type(memory), "info", refuse)
    with pytest.raises(StorageError) as caught:
        store.size("x")
    assert "SECRET" not in str(caught.value.path)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
