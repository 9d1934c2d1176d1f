"""Conversions from and to URLs: the same bytes as in a folder."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.datasets import read_files
from helpers.options import convert, convert_text
from helpers.publications import check_at_url

import stoker
from stoker.errors import DatasetError, SourceError, StorageError
from stoker.formats.dataset.manifest import STATE_NAME
from stoker.formats.remote.store import Store
from stoker.formats.sources.image_files import SkippedError, read_source_file

pytestmark = pytest.mark.usefixtures("short_pauses")


@pytest.fixture
def photos(tmp_path: Path, make_jpeg: Callable[..., bytes]) -> Path:
    folder = tmp_path / "photos"
    for i in range(24):
        (folder / f"class-{i % 3}").mkdir(parents=True, exist_ok=True)
        (folder / f"class-{i % 3}" / f"{i}.jpg").write_bytes(make_jpeg(i))
    (folder / "class-1" / "broken.jpg").write_bytes(b"\xff\xd8\xff no image")
    (folder / "class-1" / "notes.txt").write_text("no image")
    return folder


def stored(memory: Any, root: str) -> dict[str, bytes]:
    return {name.removeprefix(f"{root}/"): memory.cat_file(name) for name in memory.find(root)}


@pytest.mark.parametrize(
    "options",
    [
        {"container": "tfrecord", "val": "25%"},
        {"container": "lmdb"},
        {"container": "tfrecord", "seed": 7},
        {"shards": None, "shard_records": 1},  # the broken image makes no shard
    ],
)
def test_a_target_url_has_the_bytes_of_a_folder(
    photos: Path, tmp_path: Path, memory: Any, options: dict[str, Any]
) -> None:
    options = {"shards": 3, **options}
    local = convert(photos, tmp_path / "out", **options)
    remote = convert(photos, "memory://bucket/out", **options)
    assert stored(memory, "/bucket/out") == read_files(tmp_path / "out")
    assert (remote.written, remote.bytes, remote.skipped) == (local.written, local.bytes, local.skipped)
    assert all(str(url).startswith("memory://bucket/out") for url in remote.datasets.values())
    convert(photos, f"file://{tmp_path}/new/out", **options)
    assert read_files(tmp_path / "new" / "out") == read_files(tmp_path / "out")


def test_a_source_url_gives_the_records_of_a_folder(photos: Path, tmp_path: Path, memory: Any) -> None:
    memory.put(str(photos), "/bucket/photos", recursive=True)
    convert(photos, tmp_path / "from-folder", seed=1, shards=2)
    summary = convert("memory://bucket/photos", tmp_path / "from-url", seed=1, shards=2)
    assert summary.skipped == {"broken image": 1, "not an image": 1}
    expected, dataset = (stoker.open(tmp_path / name) for name in ("from-folder", "from-url"))
    assert dataset.manifest.shards == expected.manifest.shards
    assert dataset.manifest.classes == expected.manifest.classes


@pytest.mark.parametrize("fails_at", range(2, 40, 3))
def test_an_upload_that_fails_is_resumed(
    photos: Path, tmp_path: Path, memory: Any, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    """All writes from the n-th on fail; then the storage works again."""
    convert(photos, tmp_path / "out", num_threads=1, shards=4)
    calls = 0

    def failing(method: str) -> None:
        original = getattr(type(memory), method)

        def call(self: Any, *args: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls >= fails_at:
                raise OSError("the storage is down")
            return original(self, *args, **options)

        patch.setattr(type(memory), method, call)

    with monkeypatch.context() as patch:
        for method in ("put_file", "pipe_file", "mv"):
            failing(method)
        try:
            convert(photos, "memory://bucket/out", num_threads=1, shards=4)
        except StorageError as error:
            assert str(error.path).startswith("memory://bucket/out")  # noqa: PT017 - the last of them succeed
            assert not memory.exists("/bucket/out/dataset.json")
    if not memory.exists("/bucket/out/dataset.json"):
        result = "/bucket/out/.stoker-convert/00000.json"
        if memory.exists(result):  # as some storages show a file before it is whole
            memory.pipe_file(result, memory.cat_file(result)[:9])
        convert(photos, "memory://bucket/out", num_threads=1, shards=4)
    assert stored(memory, "/bucket/out") == read_files(tmp_path / "out")


def test_a_dataset_that_is_being_replaced_has_no_manifest(
    photos: Path, memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("the storage is down")

    convert(photos, "memory://bucket/out", shards=4)
    with monkeypatch.context() as patch:
        patch.setattr(type(memory), "put_file", fail)
        with pytest.raises(StorageError):
            convert(photos, "memory://bucket/out", overwrite=True, shards=2)
    assert not memory.exists("/bucket/out/dataset.json")


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_another_conversion_at_a_url_leaves_nothing_of_one_interrupted_while_it_published(
    photos: Path, memory: Any, container: str
) -> None:
    """A few calls are interrupted; in tests/stress every one is."""
    assert check_at_url(photos, memory, container, every=False) > 20


def test_the_same_call_ends_a_conversion_killed_while_it_removed_its_state(
    photos: Path, memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = Store.remove

    def killed(store: Store, name: str) -> None:
        if name != STATE_NAME or not memory.exists("/bucket/out/dataset.json"):
            return remove(store, name)
        remove(store, f"{name}/00000.arrow")
        raise KeyboardInterrupt

    monkeypatch.setattr(Store, "remove", killed)
    with pytest.raises(KeyboardInterrupt):
        convert(photos, "memory://bucket/out", shards=2)
    monkeypatch.undo()
    assert convert(photos, "memory://bucket/out", shards=2).already


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_the_same_call_on_a_finished_url_changes_nothing(photos: Path, memory: Any, container: Any) -> None:
    options: dict[str, Any] = {"format": container, "val": "25%", "seed": 3, "shards": 2}
    first = convert(photos, "memory://bucket/out", **options)
    before = stored(memory, "/bucket/out")
    second = convert(photos, "memory://bucket/out", **options)
    assert second == dataclasses.replace(first, already=True, seconds=0, images_per_second=0)
    assert stored(memory, "/bucket/out") == before
    with pytest.raises(DatasetError, match="already"):
        convert(photos, "memory://bucket/out", **{**options, "seed": 4})


@pytest.mark.parametrize("lost", ["shard-00000-of-00002.tfrecord", "index.arrow", "skipped.jsonl", ""])
def test_a_changed_source_or_a_damaged_dataset_at_a_url_is_not_already_converted(
    photos: Path, memory: Any, lost: str
) -> None:
    convert(photos, "memory://bucket/out", shards=2)
    if lost:
        memory.rm(f"/bucket/out/{lost}")
    else:
        later = time.time_ns() + 10**9  # the clock of files is coarse
        os.utime(photos / "class-0" / "0.jpg", ns=(later, later))
    with pytest.raises(DatasetError, match="already"):
        convert(photos, "memory://bucket/out", shards=2)


def test_a_storage_that_fails_is_not_taken_for_another_dataset(
    photos: Path, memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("the storage is down")

    convert(photos, "memory://bucket/out", shards=2)
    monkeypatch.setattr(type(memory), "get_file", fail)
    with pytest.raises(StorageError, match="the storage is down"):
        convert(photos, "memory://bucket/out", shards=2)


def test_text_at_a_url_is_already_converted_until_it_changes(memory: Any) -> None:
    memory.pipe("/bucket/text.txt", b"one two\n \nthree\n")
    source, target = "memory://bucket/text.txt", "memory://bucket/out"
    first = convert_text(source, target, val="50%")
    second = convert_text(source, target, val="50%")
    assert second == dataclasses.replace(first, already=True, seconds=0, images_per_second=0)
    memory.pipe("/bucket/text.txt", b"one TWO\n \nthree\n")
    with pytest.raises(DatasetError, match="already"):
        convert_text(source, target, val="50%")


def test_another_unfinished_conversion_is_refused(photos: Path, memory: Any) -> None:
    memory.pipe("/bucket/out/.stoker-convert/plan.json", json.dumps({"fingerprint": "other"}).encode())
    with pytest.raises(DatasetError, match="unfinished conversion"):
        convert(photos, "memory://bucket/out", shards=3)


def list_photos(photos: Path, kind: str) -> tuple[str, bytes]:
    """Name and content of a list of the photos: one is missing, one is named twice, one is outside."""
    keys = sorted(str(path.relative_to(photos)) for path in photos.rglob("*.jpg"))
    entries = [{"path": key, "label": Path(key).parent.name, "number": i} for i, key in enumerate(keys)]
    extra = [{"path": key, "label": "class-0", "number": 9} for key in ("gone.jpg", keys[0], "../x.jpg")]
    if kind == "csv":
        lines = [",".join(map(str, entry.values())) for entry in entries + extra]
        return "list.csv", "\n".join(["path,label,number", *lines]).encode()
    if kind == "json":
        return "list.json", json.dumps(entries + extra).encode()
    images = [
        {"id": i, "file_name": entry["path"], "height": 0, "width": 0}
        for i, entry in enumerate(entries + extra[:1])
    ]
    boxes = [
        {"id": i, "image_id": i, "category_id": 1, "bbox": [1, 2, 3, 4]} for i in range(0, len(entries), 2)
    ]
    document = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "thing"}]}
    return "instances.json", json.dumps(document).encode()


@pytest.mark.parametrize("kind", ["csv", "json", "coco"])
def test_a_list_at_a_url_gives_the_records_of_a_local_list(
    photos: Path, tmp_path: Path, memory: Any, kind: str
) -> None:
    name, text = list_photos(photos, kind)
    (photos / name).write_bytes(text)
    memory.put(str(photos), "/bucket/photos", recursive=True)
    options: dict[str, Any] = {"shards": 2, "seed": 1, "allow_loss": 1}
    local = convert(photos / name, tmp_path / "local", **options)
    remote = convert(f"memory://bucket/photos/{name}", tmp_path / "remote", **options)
    assert remote.skipped == local.skipped
    dataset, expected = (stoker.open(tmp_path / folder) for folder in ("remote", "local"))
    assert dataset.manifest.shards == expected.manifest.shards
    assert (dataset.classes, dataset.types) == (expected.classes, expected.types)
    assert dataset.tasks == expected.tasks
    if kind == "coco":  # a local file can have its images at a URL
        (photos / name).rename(tmp_path / name)
        convert(tmp_path / name, tmp_path / "out", images="memory://bucket/photos/", allow_loss=1)
        assert len(stoker.open(tmp_path / "out")) == 24


def test_a_list_at_a_url_can_name_urls_in_its_folder_and_no_others(
    photos: Path, tmp_path: Path, memory: Any
) -> None:
    memory.put(str(photos), "/bucket/photos", recursive=True)
    root = "memory://bucket/photos"
    lines = [f"{root}/class-0/0.jpg,1", "class-0/3.jpg,1", f"{root}-too/class-0/0.jpg,1", "/class-0/6.jpg,1"]
    memory.pipe("/bucket/photos/list.csv", "\n".join(["path,label", *lines]).encode())
    summary = stoker.convert(f"{root}/list.csv", tmp_path / "out")
    assert (summary.written, summary.skipped) == (2, {"path that leaves the source": 2})


@pytest.mark.parametrize("compressed", [False, True])
def test_text_at_urls_gives_the_bytes_of_local_files(tmp_path: Path, memory: Any, compressed: bool) -> None:
    options: dict[str, Any] = {"parallel": True, "shards": 2, "seed": 1, "val": "20%"}
    for side in "ab":
        lines = ["".join(f"{side} {i * j} " for j in range(i % 7)) for i in range(40)]
        content = "\n".join(lines).encode()
        (tmp_path / f"text.{side}").write_bytes(gzip.compress(content) if compressed else content)
        memory.pipe(f"/bucket/text.{side}", (tmp_path / f"text.{side}").read_bytes())
    convert_text([tmp_path / "text.a", tmp_path / "text.b"], tmp_path / "out", **options)
    convert_text(["memory://bucket/text.a", "memory://bucket/text.b"], "memory://bucket/out", **options)
    assert stored(memory, "/bucket/out") == read_files(tmp_path / "out")


def convert_parallel(source: str, target: Path) -> None:
    convert_text([f"{source}/text.a", f"{source}/text.b"], target, parallel=True)


@pytest.mark.parametrize(
    ("files", "call", "error", "message", "name"),
    [
        ({"text.a": b"1\n2\n", "text.b": b"1\n"}, convert_parallel, SourceError, "lines", "text.b"),
        ({"list.csv": b"file,class\na.jpg,1\n"}, convert, SourceError, "has no path: it has", "list.csv"),
        ({}, convert, StorageError, "does not exist", "none.json"),
        ({}, convert_text, StorageError, "does not exist", "none.txt"),
        ({"photos/readme.txt": b"nothing"}, convert, SourceError, "no image in a class folder", "photos"),
    ],
)
def test_an_error_names_the_url_of_the_source(
    memory: Any,
    tmp_path: Path,
    files: dict[str, bytes],
    call: Callable[..., Any],
    error: type[Exception],
    message: str,
    name: str,
) -> None:
    for path, content in files.items():
        memory.pipe(f"/bucket/{path}", content)
    source = "memory://bucket" if call is convert_parallel else f"memory://bucket/{name}"
    with pytest.raises(error, match=message) as caught:
        call(source, tmp_path / "out")
    assert getattr(caught.value, "path", None) == f"memory://bucket/{name}"


def test_a_strict_error_names_the_url_of_the_file_and_leaves_no_file(photos: Path, memory: Any) -> None:
    memory.put(str(photos / "class-1"), "/bucket/photos/class-1", recursive=True)
    memory.rm("/bucket/photos/class-1/notes.txt")
    with pytest.raises(stoker.errors.DecodeError, match="broken image") as caught:
        convert("memory://bucket/photos", "memory://bucket/out", strict=True, shards=2)
    assert caught.value.path == "memory://bucket/photos/class-1/broken.jpg"
    assert not memory.find("/bucket/out")


def test_a_file_too_large_for_a_record_is_not_fetched(memory: Any) -> None:
    with pytest.raises(SkippedError, match="larger than 2 GiB"):
        read_source_file("memory://bucket/photos", "cat/not-there.jpg", 1 << 31)
