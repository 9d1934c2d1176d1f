"""Tests of containers by name, and of a container that a test adds to the registry."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.datasets import jpeg
from helpers.shards import BYTE_RANGES, READ_ONLY, TOY, add_container

import stoker
from stoker.augment import Resize
from stoker.errors import ConfigError, CorruptRecordError
from stoker.formats.containers.container import CONTAINERS, find_container, writable
from stoker.formats.in_place.shards import index
from stoker.formats.remote.stage import stage


@pytest.mark.parametrize("name", ["zip", "", "../os", "files"])
def test_a_name_of_no_container_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="container must be one of tfrecord, lmdb"):
        find_container(name)


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    add_container(monkeypatch, TOY)


@pytest.fixture
def read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    add_container(monkeypatch, READ_ONLY)


@pytest.fixture
def external(tmp_path: Path) -> Path:
    """A shard of a toy with six images, the first three of class 0 and the others of class 1."""
    assert TOY.writing is not None
    with TOY.writing.writer(tmp_path / "external.toy") as writer:
        for number in range(6):
            writer.write(b"%d" % number, b"%d\n" % (number // 3), jpeg(number), b"")
        writer.finish()
    return tmp_path / "external.toy"


def batch(folder: Path) -> list[Any]:
    with stoker.ImageLoader(folder, batch_size=6, transforms=[Resize((8, 8))], num_threads=1) as loader:
        return list(next(iter(loader)))


@pytest.mark.usefixtures("toys")
def test_an_added_container_is_written_loaded_staged_and_replaced(photos: Path, tmp_path: Path) -> None:
    for name in ("toy", "tfrecord"):
        stoker.convert(photos, tmp_path / name, container=name, storage=stoker.ImageStorage(shards=2))
    shards = sorted(path.name for path in (tmp_path / "toy").iterdir() if path.name.startswith("shard"))
    assert shards == [
        f"shard-0000{number}-of-00002{suffix}" for number in (0, 1) for suffix in (".ranges", ".toy")
    ]
    assert stoker.verify(tmp_path / "toy", decode=True).ok
    for found, expected in zip(batch(tmp_path / "toy"), batch(tmp_path / "tfrecord"), strict=True):
        np.testing.assert_array_equal(found, expected)
    stage(tmp_path / "toy", tmp_path / "staged")
    assert stoker.verify(tmp_path / "staged").ok
    assert (tmp_path / "staged" / shards[0]).read_bytes() == (tmp_path / "toy" / shards[0]).read_bytes()
    (tmp_path / "staged" / shards[0]).write_bytes(b"0+0\n")
    (problem,) = stoker.verify(tmp_path / "staged").problems
    assert problem.message == "the .ranges file, which a toy reads, does not fit the shard"
    stoker.convert(photos, tmp_path / "toy", container="tfrecord", overwrite=True)
    assert not [path for path in (tmp_path / "toy").iterdir() if path.suffix in (".toy", ".ranges")]


@pytest.mark.usefixtures("read_only")
def test_a_container_that_is_only_read_is_refused_for_writing(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can be written, tfrecord or lmdb, found 'read-only'"):
        stoker.convert(photos, tmp_path / "out", container="read-only")


@pytest.mark.usefixtures("read_only")
def test_a_container_that_is_only_read_is_indexed_verified_and_loaded(external: Path, tmp_path: Path) -> None:
    manifest = index([external], tmp_path / "indexed", classes=["cat", "dog"])
    assert manifest.container == "read-only"
    assert manifest.options == {"made_by": "index"}
    assert (tmp_path / "indexed" / "external.toy.ranges").is_file()
    assert stoker.verify(tmp_path / "indexed", decode=True).ok
    dataset = stoker.open(tmp_path / "indexed")
    assert [dataset.read(i) for i in range(6)] == [jpeg(i) for i in range(6)]
    assert dataset.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert len(batch(tmp_path / "indexed")[0]) == 6
    external.write_bytes(external.read_bytes()[:-1])
    with pytest.raises(CorruptRecordError, match="the record is cut off"):
        index([external], tmp_path / "again")


def test_only_containers_that_can_be_written_are_offered_for_writing() -> None:
    assert set(writable()) == {name for name in CONTAINERS if find_container(name).writing is not None}


def test_sidecars_of_external_shards_keep_the_whole_name() -> None:
    assert BYTE_RANGES.name("a.toy-00000-of-00001", external=True) == "a.toy-00000-of-00001.ranges"
    assert BYTE_RANGES.name("a.toy") == "a.ranges"
