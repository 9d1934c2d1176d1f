"""Tests of the versions of a dataset: their history, and how each is opened, verified and staged."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker.augment import Resize
from stoker.errors import ConfigError, DatasetError, StorageError
from stoker.formats.dataset.manifest import Manifest
from stoker.formats.dataset.versions import SHA256_NAME, read_sha256, read_versions, with_sha256
from stoker.formats.files import file_digests
from stoker.formats.remote.stage import stage

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")

RELEASED = Path(__file__).resolve().parents[3] / "data/releases/0.1.0/objects"


@pytest.fixture
def changed(make_dataset: Callable[..., Path]) -> Path:
    """A dataset of three versions, of 6, 5 and 3 samples."""
    folder = make_dataset()
    stoker.remove(folder, keys=["k0"])
    stoker.remove(folder, where="key in ('k1', 'k4')")
    return folder


def test_the_history_has_time_change_and_counts_of_each_version(changed: Path) -> None:
    found = read_versions(changed)
    assert [(one.version, one.change, one.samples, one.added, one.removed) for one in found] == [
        (1, "convert", 6, 6, 0),
        (2, "remove 1 key", 5, 0, 1),
        (3, "remove where key in ('k1', 'k4')", 3, 0, 2),
    ]
    assert all(one.time and one.time.endswith("Z") for one in found)


def test_lines_that_are_broken_or_of_no_version_are_not_in_the_history(changed: Path) -> None:
    lines = (changed / "versions.jsonl").read_text().splitlines()
    future = json.dumps({**json.loads(lines[-1]), "version": 4})  # of a change that was killed
    (changed / "versions.jsonl").write_text("\n".join([*lines[:2], "{", "[]", future]))
    assert [one.version for one in read_versions(changed)] == [1, 2, 3]


def test_a_dataset_of_an_earlier_release_has_its_versions() -> None:
    found = [(one.version, one.change, one.samples, one.added) for one in read_versions(RELEASED)]
    assert found == [(1, "writer", 4, 4), (2, "append", 8, 4)]
    assert len(stoker.open(f"{RELEASED}@1")) == 4


def test_a_version_is_opened_by_its_number(changed: Path, tmp_path: Path) -> None:
    assert [len(stoker.open(changed, version=number)) for number in (1, 2, 3)] == [6, 5, 3]
    assert stoker.open(Path(f"{changed}@2")).keys([0]) == ["k1"]
    with stoker.ImageLoader(f"{changed}@2", batch_size=5, transforms=[Resize((4, 4))]) as loader:
        assert len(loader.dataset) == 5
    shutil.copytree(changed, tmp_path / "folder@2")
    assert len(stoker.open(tmp_path / "folder@2")) == 3, "the name of the folder"


def test_a_version_that_does_not_exist_is_refused(changed: Path) -> None:
    with pytest.raises(DatasetError, match=r"has no version 4.*\n.*The last one is 3"):
        stoker.open(changed, version=4)
    for wrong in (0, True, 1.0):
        with pytest.raises(ConfigError, match="version must be"):
            stoker.open(changed, version=wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="the path names version 2, and version is 1"):
        stoker.open(f"{changed}@2", version=1)


def test_a_version_at_a_url_is_opened_and_staged(changed: Path, tmp_path: Path) -> None:
    url, cache = f"file://{changed}", tmp_path / "cache"
    assert [len(stoker.open(url, version=one, cache=cache)) for one in (None, 1, 2)] == [3, 6, 5]
    assert stoker.open(f"{url}@2", cache=cache)[0].key == "k1"
    with pytest.raises(DatasetError, match="has no version 7"):
        stoker.open(f"{url}@7", cache=cache)
    stage(f"{url}@2", tmp_path / "copy")
    assert stoker.open(tmp_path / "copy").fingerprint == stoker.open(changed, version=2).fingerprint
    assert stoker.verify(tmp_path / "copy").ok
    with pytest.raises(DatasetError, match="version 1 is not in the folder"):
        stoker.open(tmp_path / "copy", version=1)


def test_verify_checks_every_version(changed: Path) -> None:
    report = stoker.verify(changed)
    assert (report.ok, report.versions, report.samples) == (True, 3, 6)
    assert stoker.verify(f"{changed}@2").samples == 5
    index = changed / "index-v2.arrow"
    index.write_bytes(index.read_bytes()[:-1] + b"x")
    (changed / "dataset-v1.json").write_text("{}")
    messages = [problem.message for problem in stoker.verify(changed).problems]
    assert messages[0].startswith("version 1: the manifest must be a JSON object")
    assert messages[1].startswith("version 2: the index is not the one")
    assert len(messages) == 2


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
    stoker.convert(photos, first, container=container, storage=stoker.ImageStorage(shards=2))
    assert stored(first) == computed(first)
    written = stoker.open(first)
    with stoker.Writer(more, classes=written.classes, container=container) as writer:
        writer.write(image=written.read(0), label=0, key="new")
    stoker.merge([first, more], merged)
    assert stored(merged) == computed(merged)
    stoker.append(first, [{"image": written.read(1), "label": 1, "key": "appended"}])
    assert stored(first) == computed(first)
    stoker.remove(first, keys=["appended"])
    assert stored(first) == computed(first)
    assert len(json.loads((first / SHA256_NAME).read_text())["files"]) == 3 + 3 + 3, (
        "earlier versions keep theirs"
    )
    assert stoker.verify(first).ok


@pytest.mark.parametrize("name", ["dataset.json", "dataset-v1.json"])
def test_a_manifest_that_is_not_as_it_was_written_is_a_problem(
    photos: Path, tmp_path: Path, name: str
) -> None:
    stoker.convert(photos, tmp_path / "a")
    stoker.remove(tmp_path / "a", where="label == 0")
    assert stoker.verify(tmp_path / "a").ok
    file = tmp_path / "a" / name
    for old, new in (('"dog"', '"dig"'), ('"seed": null', '"seed": 7')):
        content = file.read_text()
        assert old in content
        file.write_text(content.replace(old, new))
        assert [
            problem.message.partition(" is not")[0] for problem in stoker.verify(tmp_path / "a").problems
        ] == [name]
        file.write_text(content)
    file.write_text(json.dumps(json.loads(file.read_text()), indent=4))  # another form of the same content
    assert stoker.verify(tmp_path / "a").ok
    file.write_text(file.read_text().replace('"dog"', '"dig"'))
    (tmp_path / "a" / SHA256_NAME).unlink()  # datasets of earlier releases have none
    assert stoker.verify(tmp_path / "a").ok
    (tmp_path / "a" / SHA256_NAME).mkdir()
    (problem,) = stoker.verify(tmp_path / "a").problems
    assert problem.message == "sha256.json cannot be read: not a regular file"


@pytest.mark.parametrize("name", ["dataset.json", "shard-00000-of-00001.tfrecord"])
def test_a_file_of_a_storage_that_fails_is_not_missing(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    stoker.convert(photos, tmp_path / "a")
    real = {call: getattr(os, call) for call in ("open", "stat")}

    def fail(call: str, path: Any, *options: Any, **named: Any) -> Any:
        if str(path).endswith(name):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return real[call](path, *options, **named)

    for call in real:
        monkeypatch.setattr(os, call, partial(fail, call))
    with pytest.raises(StorageError, match=os.strerror(errno.EIO)) as caught:
        stoker.open(tmp_path / "a")
    assert str(caught.value.path).endswith(name)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("arrays", {"depth": {"dtype": "float32", "shape": [2, 4]}}, "have the shape"),
        ("arrays", {"depth": {"dtype": "float32", "shape": [6]}}, "have the shape"),
        ("category_ids", [1, 2], "an id for each class"),
    ],
)
def test_a_manifest_that_contradicts_the_index_is_refused(
    tmp_path: Path, key: str, value: Any, message: str
) -> None:
    with stoker.Writer(tmp_path / "a", classes=["x"]) as writer:
        for name in "ab":
            image = np.zeros((8, 8, 3), np.uint8)
            writer.write(image=image, label=0, key=name, depth=np.ones((2, 3), np.float32))
    file = tmp_path / "a" / "dataset.json"
    document = json.loads(file.read_text())
    assert key not in document or document[key] == {"depth": {"dtype": "float32", "shape": [2, 3]}}
    file.write_text(json.dumps(document | {key: value}))
    with pytest.raises(DatasetError, match=message):
        stoker.open(tmp_path / "a")


def test_an_entry_of_a_file_that_was_replaced_does_not_count(photos: Path, tmp_path: Path) -> None:
    stoker.convert(photos, tmp_path / "a")
    stoker.convert(photos, tmp_path / "b", seed=1)
    (tmp_path / "a" / SHA256_NAME).write_bytes((tmp_path / "b" / SHA256_NAME).read_bytes())
    assert set(stored(tmp_path / "a").values()) == {None}
    stoker.remove(tmp_path / "a", where="label == 0")
    assert list(stored(tmp_path / "a").values()) == [computed(tmp_path / "a")["index-v2.arrow"], None]


def test_a_damaged_file_is_an_error_that_says_what_to_do(photos: Path, tmp_path: Path) -> None:
    stoker.convert(photos, tmp_path / "a")
    for files in ("[", "{}, 1", '{"a": ["b"]}', '{"a": ["b", "c"]}'):
        (tmp_path / "a" / SHA256_NAME).write_text(f'{{"version": 1, "files": {files}}}')
        with pytest.raises(DatasetError, match=r"sha256\.json is damaged") as error:
            stored(tmp_path / "a")
        assert "Remove this file" in str(error.value.hint)
    (problem,) = stoker.verify(tmp_path / "a").problems
    assert "sha256.json is damaged" in problem.message
    before = sorted((tmp_path / "a").iterdir())
    with pytest.raises(DatasetError, match=r"sha256\.json is damaged") as refused:
        stoker.append(tmp_path / "a", photos)
    assert refused.value.path == str(tmp_path / "a")
    assert sorted((tmp_path / "a").iterdir()) == before, "nothing was made for the next version"
