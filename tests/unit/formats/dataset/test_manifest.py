"""Tests of manifests: JSON, fingerprints, and refused files."""

import dataclasses
import json
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import stoker
from stoker.errors import DatasetError
from stoker.formats.dataset import manifest as manifest_module
from stoker.formats.dataset.annotations import AnnotationInfo
from stoker.formats.dataset.manifest import MANIFEST_NAME, IndexFile, Manifest, Shard
from stoker.formats.remote import stage as remote_dataset

CRC = "crc32c:00000000"
ANNOTATIONS = AnnotationInfo(("left", "right"), (1, 0), ((0, 1),), 255, ("sky", "sea"))


def manifest(**changes: Any) -> Manifest:
    values: dict[str, Any] = {
        "container": "tfrecord",
        "sample_type": "image",
        "columns": {"key": "large_string", "label": "int64"},
        "shards": (
            Shard("shard-00000-of-00002.tfrecord", 1000, 10, "crc32c:0123abcd"),
            Shard("b", 2000, 20, CRC, path="../elsewhere/b"),
        ),
        "index": IndexFile(30, 4000, "crc32c:ffffffff"),
        "classes": ("cat", "hündchen"),
        "options": {"resize": "shorter=256", "quality": 90, "strict": False, "fraction": 0.5, "val": None},
        "skipped": {"no image": 3},
    }
    return Manifest(**{**values, **changes})


def test_a_manifest_states_paths_and_annotations_only_where_there_are_some() -> None:
    full = manifest(annotations=ANNOTATIONS)
    assert Manifest.from_json(full.to_json()) == full
    inside = tuple(dataclasses.replace(shard, path=None) for shard in manifest().shards)
    for key in ('"path"', '"annotations"'):
        assert key in full.to_json()
        assert key not in manifest(shards=inside).to_json()


@pytest.mark.parametrize(
    "changes",
    [
        {"index": IndexFile(30, 4000, "crc32c:fffffffe")},
        {"classes": ("cat", "dog")},
        {"shards": manifest().shards[::-1]},
        {"shards": (manifest().shards[0], Shard("b", 2000, 20, "crc32c:00000001"))},
        {"annotations": ANNOTATIONS},
    ],
)
def test_other_samples_have_another_fingerprint(changes: dict[str, Any]) -> None:
    assert manifest(**changes).fingerprint != manifest().fingerprint


def test_paths_and_options_do_not_change_the_fingerprint() -> None:
    moved = dataclasses.replace(manifest().shards[1], path="/data/b")
    assert manifest(shards=(manifest().shards[0], moved), options={}).fingerprint == manifest().fingerprint
    assert len(bytes.fromhex(manifest().fingerprint)) == 16


def test_data_files_lie_in_the_folder_or_at_the_path_of_their_shard(tmp_path: Path) -> None:
    files = manifest().data_files(tmp_path)
    assert files == [tmp_path / "shard-00000-of-00002.tfrecord", tmp_path / "../elsewhere/b"]
    assert manifest(container="lmdb").data_files(tmp_path)[0] == files[0] / "data.mdb"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *(
            (partial(Shard, name, 1, 1, CRC), "plain file name")
            for name in ("", ".", "..", "a/b", "/etc/passwd", "../a", "a\\b", "a\0b", "\ud800")
        ),
        *((partial(Shard, "a", 1, 1, CRC, path), "must name a file") for path in ("", "a\0b", "\ud800")),
        *(
            (partial(IndexFile, 1, 1, digest), "eight hexadecimal digits")
            for digest in ("", "crc32c:", "crc32c:0000000", "crc32c:0000000G", f"{CRC}\n", "md5:00")
        ),
        (partial(Shard, "b", 10, 11, CRC), "records of shard 'b' must be a count, from 0 to 10"),
        (partial(manifest, container="zip"), "container must be one of tfrecord, lmdb, .*found 'zip'"),
        (partial(manifest, sample_type="sound"), "kind must be one of image, text, found 'sound'"),
        (partial(manifest, version=2), "version 2"),
        (partial(manifest, skipped={"x": -1}), "must be a count"),
        (partial(manifest, index=IndexFile(31, 4000, CRC)), "31 rows, and the shards have 30 records"),
        (partial(manifest, shards=(manifest().shards[0],) * 2), "same name"),
        (
            partial(manifest, shards=tuple(Shard(f"{i}", 1 << 44, 1, CRC) for i in range(17)),
                    index=IndexFile(1, 4000, CRC)),
            "more than any dataset",
        ),
    ],
)  # fmt: skip
def test_a_value_that_no_manifest_can_have_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        make()


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("extra",), 1, "does not know: extra"),
        (("shards", 0, "extra"), 1, "shards: has keys|shards has keys"),
        (("version",), 2, "version 2"),
        (("version",), True, "version True"),
        (("version",), "1", "version '1'"),
        (("classes",), "cat", "classes has a value of the wrong type"),
        (("classes", 0), 7, "classes has a value of the wrong type"),
        (("shards",), {}, "wrong type"),
        (("shards", 0), [], "must be an object"),
        (("shards", 0, "bytes"), "1000", "bytes has a value of the wrong type"),
        (("shards", 0, "bytes"), 1.5, "wrong type"),
        (("shards", 0, "bytes"), True, "wrong type"),
        (("shards", 0, "bytes"), -1, "must be a count"),
        (("shards", 0, "bytes"), 1 << 63, "must be a count"),
        (("shards", 1, "path"), 5, "wrong type"),
        (("shards", 1, "path"), "", "must name a file"),
        (("index",), None, "must be an object"),
        (("options", "quality"), [90], "wrong type"),
        (("options", "quality"), {"__reduce__": "os.system"}, "wrong type"),
        (("columns", "label"), 5, "wrong type"),
        (("skipped", "no image"), "three", "wrong type"),
        (("annotations", "swap"), [0, 0], "each of 2 keypoints once"),
        (("annotations", "skeleton"), [[0, 2]], "not among 2"),
        (("annotations", "skeleton"), [[0, 1, 1]], "list of 2 values, found 3"),
        (("annotations", "ignore"), -1, "0 to 65535"),
        (("annotations", "ignore"), "255", "wrong type"),
        (("annotations", "colours"), [], "does not know"),
    ],
)
def test_a_document_with_a_wrong_value_is_refused(keys: tuple[Any, ...], value: Any, message: str) -> None:
    document = json.loads(manifest(annotations=ANNOTATIONS).to_json())
    parent = document
    for key in keys[:-1]:
        parent = parent[key]
    parent[keys[-1]] = value
    with pytest.raises(DatasetError, match=message):
        Manifest.from_json(json.dumps(document))


@pytest.mark.parametrize("key", json.loads(manifest().to_json()))
def test_a_document_that_lacks_a_key_is_refused(key: str) -> None:
    document = json.loads(manifest().to_json())
    del document[key]
    with pytest.raises(DatasetError, match=rf"lacks {key}|with a version"):
        Manifest.from_json(json.dumps(document))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3", '"version"', "[" * 100_000, "{}", "NaN"])
def test_a_text_that_is_no_manifest_is_refused(text: str) -> None:
    with pytest.raises(DatasetError, match=r"is not JSON|must be a JSON object with a version"):
        Manifest.from_json(text)


def test_a_huge_manifest_or_one_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / MANIFEST_NAME).write_bytes(b"\xff\xfe")
    with pytest.raises(DatasetError, match="not UTF-8"):
        Manifest.load(tmp_path)
    with (tmp_path / MANIFEST_NAME).open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(DatasetError, match="bytes"):
        Manifest.load(tmp_path)


def test_a_huge_manifest_at_a_url_is_not_read_whole(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # A manifest of more than the real limit, 256 MiB, would be too much for a test.
    monkeypatch.setattr(manifest_module, "MOST_MANIFEST_BYTES", 1000)
    monkeypatch.setattr(remote_dataset, "MOST_MANIFEST_BYTES", 1000)
    read: list[int] = []
    cat = type(memory).cat_file

    def counted(self: Any, path: str, **limits: Any) -> bytes:
        data = bytes(cat(self, path, **limits))
        read.append(len(data))
        return data

    monkeypatch.setattr(type(memory), "cat_file", counted)
    memory.pipe(f"/bucket/{MANIFEST_NAME}", b" " * 5000)
    with pytest.raises(DatasetError, match="more than 1000 bytes"):
        remote_dataset.open_remote("memory://bucket", threading.Event())
    assert max(read) <= 1001


@pytest.mark.parametrize("size", [1 << 50, 1 << 62, (1 << 63) - 1])
@pytest.mark.parametrize("where", ["shards", "index"])
def test_a_size_that_no_file_has_is_refused(make_dataset: Any, tmp_path: Path, size: int, where: str) -> None:
    folder = make_dataset()
    document = json.loads((folder / MANIFEST_NAME).read_text())
    (document["shards"][0] if where == "shards" else document["index"])["bytes"] = size
    (folder / MANIFEST_NAME).write_text(json.dumps(document))
    for options in ({}, {"cache": tmp_path / "cache"}):
        with pytest.raises(DatasetError, match="must be a count"):
            stoker.open(folder, **options)
    assert not (tmp_path / "cache").exists()
