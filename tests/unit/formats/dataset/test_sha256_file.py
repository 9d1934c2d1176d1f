"""Tests of ``sha256.json``, which has the SHA-256 of each file of each version of a dataset."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stoker
from stoker.errors import DatasetError
from stoker.formats.dataset.manifest import Manifest
from stoker.formats.dataset.sha256_file import SHA256_NAME, read_sha256, with_sha256
from stoker.formats.files.reading import file_digests


def stored(folder: Path) -> dict[str, str | None]:
    """SHA-256 of the files of the last version, by name."""
    manifest = with_sha256(Manifest.load(folder), read_sha256(folder))
    return {manifest.index.file: manifest.index.sha256} | {one.name: one.sha256 for one in manifest.shards}


def computed(folder: Path) -> dict[str, str | None]:
    manifest = Manifest.load(folder)
    files = {
        shard.name: file for shard, file in zip(manifest.shards, manifest.data_files(folder), strict=True)
    }
    files[manifest.index.file] = folder / manifest.index.file
    return {name: file_digests(file).sha256 for name, file in files.items()}


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_every_version_of_a_dataset_has_the_sha256_of_its_files(
    photos: Path, tmp_path: Path, container: str
) -> None:
    first, more, merged = tmp_path / "first", tmp_path / "more", tmp_path / "merged"
    stoker.convert(photos, first, shards=2, format=container)
    assert stored(first) == computed(first)
    written = stoker.open(first)
    with stoker.Writer(more, classes=written.classes, format=container) as writer:
        writer.write(image=written.read(0), label=0, key="new")
    stoker.merge([first, more], merged)
    assert stored(merged) == computed(merged)
    stoker.append(first, [{"image": written.read(1), "label": 1, "key": "appended"}])
    assert stored(first) == computed(first)
    stoker.exclude(first, keys=["appended"])
    assert stored(first) == computed(first)
    assert len(json.loads((first / SHA256_NAME).read_text())["files"]) == 3 + 3, (
        "earlier versions keep theirs"
    )
    assert stoker.verify(first).ok


def test_an_entry_of_a_file_that_was_replaced_does_not_count(photos: Path, tmp_path: Path) -> None:
    stoker.convert(photos, tmp_path / "a")
    stoker.convert(photos, tmp_path / "b", seed=1)
    (tmp_path / "a" / SHA256_NAME).write_bytes((tmp_path / "b" / SHA256_NAME).read_bytes())
    assert set(stored(tmp_path / "a").values()) == {None}
    stoker.exclude(tmp_path / "a", where="label == 0")
    assert list(stored(tmp_path / "a").values()) == [computed(tmp_path / "a")["index-v2.arrow"], None]


def test_a_damaged_file_is_an_error_that_says_what_to_do(photos: Path, tmp_path: Path) -> None:
    stoker.convert(photos, tmp_path / "a")
    for files in ("[", "{}, 1", '{"a": ["b"]}', '{"a": ["b", "c"]}'):
        (tmp_path / "a" / SHA256_NAME).write_text(f'{{"version": 1, "files": {files}}}')
        with pytest.raises(DatasetError, match=r"sha256\.json is damaged") as error:
            stored(tmp_path / "a")
        assert "remove this file" in str(error.value.hint)
    (problem,) = stoker.verify(tmp_path / "a").problems
    assert "sha256.json is damaged" in problem.message
    before = sorted((tmp_path / "a").iterdir())
    with pytest.raises(DatasetError, match=r"sha256\.json is damaged") as refused:
        stoker.append(tmp_path / "a", photos)
    assert refused.value.path == str(tmp_path / "a")
    assert sorted((tmp_path / "a").iterdir()) == before, "nothing was made for the next version"
