"""Tests of external shards at URLs: indexed into a folder or at the URL, loaded with a cache, staged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.datasets import jpeg
from helpers.images import encode, noise
from helpers.loaders import image_arguments
from helpers.shards import datum, example, write_lmdb, write_tfrecord

import stoker
from stoker.augment import Resize
from stoker.errors import CorruptRecordError, DatasetError, SourceError, StorageError
from stoker.formats.containers.external import ExternalShard
from stoker.formats.containers.tfrecord import TFRECORD
from stoker.formats.in_place.shards import index
from stoker.formats.remote.stage import stage

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk", "short_pauses")

ROOT = "memory://bucket/shards"


@pytest.fixture
def shards(tmp_path: Path, memory: Any) -> dict[str, list[Path]]:
    """Two shards of each container, on the disk and at ``ROOT``."""
    (folder := tmp_path / "shards").mkdir()
    paths: dict[str, list[Path]] = {"tfrecord": [], "lmdb": []}
    for number in range(2):
        images = [jpeg(3 * number + i) for i in range(3)]
        examples = [example(image, i) for i, image in enumerate(images)]
        paths["tfrecord"].append(write_tfrecord(folder / f"train-{number}.tfrecord", examples))
        values = {b"%d" % i: datum(image, i) for i, image in enumerate(images)}
        paths["lmdb"].append(write_lmdb(folder / f"lmdb-{number}", values))
    for file in folder.rglob("*"):
        if file.is_file() and file.name != "lock.mdb":
            memory.pipe(f"/bucket/shards/{file.relative_to(folder)}", file.read_bytes())
    return paths


def urls(shards: dict[str, list[Path]], container: str) -> list[str]:
    return [f"{ROOT}/{path.name}" for path in shards[container]]


@pytest.fixture(params=["tfrecord", "lmdb"])
def container(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[True, False], ids=["index at the URL", "local index"])
def at_url(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def expected(shards: dict[str, list[Path]], tmp_path: Path, container: str) -> stoker.Dataset:
    """The dataset of the shards on the disk."""
    index(shards[container], tmp_path / "expected")
    return stoker.open(tmp_path / "expected")


@pytest.fixture
def into(shards: dict[str, list[Path]], tmp_path: Path, container: str, at_url: bool) -> str:
    """The folder or URL of an index of the shards at ``ROOT``."""
    into = ROOT if at_url else str(tmp_path / "into")
    index(urls(shards, container), into)
    return into


def test_an_index_of_shards_at_urls_has_their_paths_or_urls(
    shards: dict[str, list[Path]], tmp_path: Path, memory: Any, container: str, at_url: bool
) -> None:
    before = memory.find("/bucket/shards")
    names = [f"{ROOT}/train-*.tfrecord"] if container == "tfrecord" else urls(shards, container)
    manifest = index(names, ROOT if at_url else tmp_path / "into")
    assert [shard.path for shard in manifest.shards] == [
        url.removeprefix(f"{ROOT}/") if at_url else url for url in urls(shards, container)
    ]
    if not at_url:
        assert memory.find("/bucket/shards") == before
        assert sorted(path.name for path in (tmp_path / "into").glob("[!.]*") if path.suffix != ".idx") == [
            "dataset.json",
            "index.arrow",
            "sha256.json",
        ]


def test_a_local_index_of_shards_at_urls_needs_a_cache(shards: dict[str, list[Path]], tmp_path: Path) -> None:
    index(urls(shards, "tfrecord"), tmp_path / "into")
    with pytest.raises(DatasetError, match="its shards lie elsewhere") as caught:
        stoker.open(tmp_path / "into")
    assert "cache=" in str(caught.value)


def test_shards_at_urls_are_loaded_like_local_ones(
    into: str, expected: stoker.Dataset, tmp_path: Path
) -> None:
    dataset = stoker.open(into, cache=tmp_path / "cache")
    assert dataset.fingerprint == expected.fingerprint
    assert [dataset.read(i) for i in range(6)] == [expected.read(i) for i in range(6)]
    options: dict[str, Any] = {"batch_size": 6, "transforms": [Resize((8, 8))], "num_threads": 1}
    with (
        stoker.ImageLoader(into, **image_arguments(cache=tmp_path / "second cache", **options)) as loader,
        stoker.ImageLoader(expected, **options) as local,
    ):
        for array, expected_array in zip(next(iter(loader)), next(iter(local)), strict=True):
            np.testing.assert_array_equal(array, expected_array)


def test_shards_at_urls_are_staged_with_their_sidecars(
    into: str, expected: stoker.Dataset, tmp_path: Path
) -> None:
    stage(into, tmp_path / "staged")
    staged = stoker.open(tmp_path / "staged")
    assert staged.fingerprint == expected.fingerprint
    for sidecar in expected.path.glob("*.idx"):
        assert (tmp_path / "staged" / sidecar.name).read_bytes() == sidecar.read_bytes()
    assert [staged.read(i) for i in range(6)] == [expected.read(i) for i in range(6)]


def test_shards_at_file_urls_have_the_index_of_local_ones(
    shards: dict[str, list[Path]], expected: stoker.Dataset, tmp_path: Path, container: str
) -> None:
    manifest = index([f"file://{path}" for path in shards[container]], tmp_path / "into")
    assert manifest.container == container
    assert manifest.fingerprint == expected.fingerprint


def test_a_shard_of_several_requests_has_the_index_of_a_local_one(tmp_path: Path, memory: Any) -> None:
    examples = [example(encode(noise(i, 1200, 1200), "PNG"), i) for i in range(3)]
    data = write_tfrecord(tmp_path / "x.tfrecord", examples).read_bytes()
    assert len(data) > 8 << 20
    memory.pipe("/bucket/x.tfrecord", data)
    local, remote = ([f"{root}/x.tfrecord"] for root in (tmp_path, "memory://bucket"))
    expected = index(local, tmp_path / "local").fingerprint
    assert index(remote, tmp_path / "remote").fingerprint == expected


def test_errors_of_the_indexing_name_the_url_of_the_shard(
    shards: dict[str, list[Path]], tmp_path: Path, memory: Any
) -> None:
    damaged = bytearray(memory.cat_file("/bucket/shards/train-0.tfrecord"))
    damaged[40] ^= 1
    write_tfrecord(tmp_path / "other", [{"other": b"x"}])
    memory.pipe("/bucket/shards/train-0.tfrecord", bytes(damaged))
    memory.pipe("/bucket/shards/train-1.tfrecord", (tmp_path / "other").read_bytes())
    for url, message in zip(
        urls(shards, "tfrecord"), ("checksum does not match", "no bytes in"), strict=True
    ):
        with pytest.raises((CorruptRecordError, SourceError), match=message) as caught:
            index([url], tmp_path / "into")
        assert caught.value.path == url
        assert not list((tmp_path / "into").glob("[!.]*"))


def test_errors_of_reading_and_staging_name_the_url_of_the_shard(
    shards: dict[str, list[Path]], tmp_path: Path, memory: Any
) -> None:
    index(urls(shards, "tfrecord"), tmp_path / "into")
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


def test_invalid_shards_and_targets_are_refused(shards: dict[str, list[Path]], tmp_path: Path) -> None:
    url, file = urls(shards, "tfrecord")[0], shards["tfrecord"][1]
    for paths, into, message in (
        ([url, url], tmp_path, "named more than once"),
        ([f"{ROOT}/none.tfrecord"], tmp_path, "no such shard of tfrecord"),
        ([f"{ROOT}/none-*"], tmp_path, "no file matches the pattern"),
        ([file, url], tmp_path, "some shards are at URLs and some on a disk"),
        ([file], ROOT, "has its shards in its folder"),
        ([url], "memory://bucket/other", "has its shards in its folder"),
    ):
        with pytest.raises(SourceError, match=message):
            index(paths, into)
    index([url], ROOT)
    with pytest.raises(DatasetError, match="there is a dataset already") as caught:
        index([url], ROOT)
    assert caught.value.path == ROOT


def test_a_shard_is_not_in_a_folder_whose_name_its_path_only_begins_with() -> None:
    shard = ExternalShard(*[f"{ROOT}-2/x.tfrecord"] * 2, 1, 0, TFRECORD)
    with pytest.raises(SourceError, match="this one is not in"):
        shard.location(ROOT)
    assert shard.location(f"{ROOT}-2") == "x.tfrecord"


def test_the_manifest_has_no_credentials_of_urls(tmp_path: Path) -> None:
    url = "https://user:SECRET@host/x.tfrecord?X-Amz-Signature=SECRET"
    shard = ExternalShard(url, url, 10, 0, TFRECORD)
    assert shard.location(tmp_path) == "https://host/x.tfrecord"
