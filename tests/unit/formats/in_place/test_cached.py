"""Tests of shards that loaders open without ``stoker index``: their index is kept in the user's cache."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from helpers.datasets import jpeg
from helpers.images import encode, noise
from helpers.shards import example, write_samples, write_tfrecord

import stoker
from stoker.augment import Resize
from stoker.errors import ConfigError, CorruptRecordError, DatasetError, SourceError
from stoker.formats.index_cache import cached_indexes

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk", "short_pauses", "cache")


@pytest.fixture(autouse=True)
def tars(tmp_path: Path) -> Path:
    """A folder with two archives of two samples."""
    (tmp_path / "tars").mkdir()
    for shard in range(2):
        numbers = (2 * shard, 2 * shard + 1)
        samples = [{"__key__": f"k{i}", "jpg": jpeg(i), "cls": i, "txt": f"photo {i}"} for i in numbers]
        write_samples(tmp_path / "tars" / f"{shard}.tar", samples)
    return tmp_path / "tars"


@pytest.mark.parametrize("name", ["", "{0..1}.tar", "*.tar"])
def test_a_loader_takes_archives_by_folder_braces_and_pattern(tars: Path, name: str) -> None:
    with stoker.ImageLoader(
        tars / name, batch_size=4, transforms=[Resize((8, 8))], columns=("label", "caption"), num_threads=1
    ) as loader:
        labels, captions = next(iter(loader))
    assert labels.tolist() == [0, 1, 2, 3]
    assert captions == [f"photo {i}" for i in range(4)]
    assert sorted(path.name for path in tars.iterdir()) == ["0.tar", "1.tar"]


def test_an_index_is_used_until_size_or_time_of_an_archive_changes(tars: Path) -> None:
    assert stoker.open(tars / "0.tar").path == stoker.open(tars / "0.tar").path
    assert len(cached_indexes()) == 1
    write_samples(tars / "0.tar", [{"__key__": "new", "jpg": jpeg(9), "cls": 5}])
    dataset = stoker.open(tars / "0.tar")
    assert (dataset.keys([0]), dataset.read(0)) == (["new"], jpeg(9))
    status = (tars / "0.tar").stat()
    write_samples(tars / "0.tar", [{"__key__": "few", "jpg": jpeg(9), "cls": 5}])
    os.utime(tars / "0.tar", ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000_000))
    assert stoker.open(tars / "0.tar").keys([0]) == ["few"]


def test_a_tfrecord_file_is_opened_as_an_archive_is(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "x.tfrecord", [example(jpeg(0), 3)])
    assert stoker.open(path).labels.tolist() == [3]


def test_archives_at_a_url_are_read_through_the_cache_of_the_loader(
    tars: Path, tmp_path: Path, memory: Any
) -> None:
    for file in tars.iterdir():
        memory.pipe(f"/bucket/tars/{file.name}", file.read_bytes())
    for _ in range(2):
        dataset = stoker.open("memory://bucket/tars/{0..1}.tar", cache=tmp_path / "blocks")
        assert [dataset.read(i) for i in range(4)] == [jpeg(i) for i in range(4)]
    assert len(cached_indexes()) == 1
    with pytest.raises(DatasetError, match="the dataset is at a URL"):
        stoker.open("memory://bucket/tars/0.tar")


@pytest.mark.parametrize("validator", ["ETag", "Last-Modified", "mtime"])
@pytest.mark.parametrize("changed", ["labels", "pixels"])
def test_an_archive_at_a_url_that_is_overwritten_with_one_of_its_size_is_read_again(
    tmp_path: Path, memory: Any, monkeypatch: pytest.MonkeyPatch, validator: str, changed: str
) -> None:
    state: Any = "a"
    info = type(memory).info

    def answer(self: Any, path: str, **options: Any) -> dict[str, Any]:
        return {**info(self, path, **options), "created": None, validator: state}

    monkeypatch.setattr(type(memory), "info", answer)
    url, cache = "memory://bucket/x.tar", tmp_path / "blocks"
    for number, now in enumerate([1.5, 2.5] if validator == "mtime" else ["a", "b"]):
        state, pixels, label = now, number * (changed == "pixels"), number * (changed == "labels")
        image = encode(noise(pixels, 80, 80)).ljust(20_000, b"\0")
        write_samples(tmp_path / "x.tar", [{"__key__": "a", "jpg": image, "cls": label}])
        memory.pipe("/bucket/x.tar", (tmp_path / "x.tar").read_bytes())
        for _ in range(2):
            dataset = stoker.open(url, cache=cache)
            assert (dataset.labels.tolist(), bytes(dataset.read(0))) == ([label], image)
    assert len(cached_indexes()) == 2


def test_a_folder_with_images_and_an_archive_is_read_as_images(tars: Path, tmp_path: Path) -> None:
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    (tmp_path / "photos" / "cat" / "a.jpg").write_bytes(jpeg(5))
    (tmp_path / "photos" / "all.tar").write_bytes((tars / "0.tar").read_bytes())
    dataset = stoker.open(tmp_path / "photos")
    assert (dataset.keys([0]), dataset.classes) == (["cat/a.jpg"], ("cat",))
    assert stoker.convert(tmp_path / "photos", tmp_path / "out").written == 1


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("{tars}", CorruptRecordError, "the archive is cut short"),
        ("{tars}/x*.tar", SourceError, "no file matches the pattern"),
        ("{tars}/none.tar", DatasetError, "there is no none.tar in(?s:.)*Did you mean"),
        ("", ConfigError, "names no path"),
    ],
)
def test_a_path_that_cannot_be_opened_leaves_no_index(
    tars: Path, name: str, error: type[Exception], message: str
) -> None:
    (tars / "0.tar").write_bytes((tars / "0.tar").read_bytes()[:700])
    with pytest.raises(error, match=message):
        stoker.open(name.format(tars=tars))
    assert not cached_indexes()
