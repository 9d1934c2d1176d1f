"""Tests of :func:`stoker.verify`: the problems that it finds, and its report."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from helpers.datasets import flip_bit, rewrite_index

import stoker
from stoker.augment import CenterCrop
from stoker.errors import ConfigError, DatasetError, StorageError
from stoker.formats import verify as payloads
from stoker.formats.containers import tfrecord
from stoker.formats.containers.container import writable
from stoker.formats.containers.image_record import FeatureNames
from stoker.formats.containers.protobuf import encode_example
from stoker.formats.dataset.columns import ListColumn
from stoker.formats.dataset.manifest import INDEX_NAME, MANIFEST_NAME
from stoker.formats.files import file_digest
from stoker.formats.in_place import shards as external_index
from stoker.formats.verify import Problem

Make = Callable[..., Path]


@pytest.fixture
def folder(make_dataset: Make) -> Path:
    return make_dataset()


@contextmanager
def changed_manifest(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the manifest of a dataset as JSON, and write it with the changes of the block."""
    document = json.loads((folder / MANIFEST_NAME).read_text())
    yield document
    (folder / MANIFEST_NAME).write_text(json.dumps(document))


@pytest.mark.parametrize("container", writable())
@pytest.mark.parametrize("num_threads", [1, 4])
def test_a_sound_dataset_has_no_problems(make_dataset: Make, container: str, num_threads: int) -> None:
    seen: list[tuple[int, int]] = []
    folder = make_dataset(container)
    report = stoker.verify(
        folder, decode=True, num_threads=num_threads, progress=lambda *counts: seen.append(counts)
    )
    assert report.ok
    assert report.problems == ()
    assert (report.samples, report.decoded) == (6, True)
    assert report.bytes == sum(stoker.open(folder).data_sizes)
    assert seen[-1] == (6, 6)
    assert seen == sorted(seen)


def test_an_image_that_decodes_to_another_size_than_its_header_says_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No decoder of a codec does this today: each of them takes the size from the header.
    monkeypatch.setattr(payloads, "decode_rgb", lambda *_: np.zeros((7, 9, 3), np.uint8))
    report = stoker.verify(folder, decode=True)
    assert len(report.problems) == 6
    assert "the decoded image is 9 x 7, not" in report.problems[0].message


def test_a_manifest_with_half_a_surrogate_pair_is_checked(make_dataset: Make) -> None:
    folder = make_dataset("tfrecord")
    manifest = json.loads((folder / MANIFEST_NAME).read_text())
    (folder / MANIFEST_NAME).write_text(json.dumps({**manifest, "classes": ["\ud800"]}))
    assert not stoker.verify(folder).ok


def test_a_flipped_bit_is_found_in_file_record_and_payload(make_dataset: Make) -> None:
    folder = make_dataset()
    flip_bit(stoker.open(folder), 4)
    report = stoker.verify(folder)
    name = "shard-00001-of-00002.tfrecord"
    assert [str(problem) for problem in report.problems] == [
        f"shard {name}: the file is not as it was written: its digest differs",
        f"shard {name}, record 1: the value's checksum does not match",
        f"shard {name}, record 1, key k4: the payload's checksum does not match",
    ]
    assert (report.ok, report.found) == (False, 3)
    folder = make_dataset("lmdb", name="lmdb")
    flip_bit(stoker.open(folder), 4)
    name = "shard-00001-of-00002.lmdb"
    assert stoker.verify(folder).problems == (
        Problem("the file is not as it was written: its digest differs", name),
        Problem("the payload's checksum does not match", name, 1, "k4"),
    )


def test_a_missing_shard_is_one_problem_and_a_cut_one_is_one_of_each_sample(make_dataset: Make) -> None:
    folder = make_dataset(shards=3)
    files = stoker.open(folder).data_files
    files[0].unlink()
    os.truncate(files[2], 10)
    messages = [str(problem) for problem in stoker.verify(folder).problems]
    assert "cannot be read" in messages[0]
    assert "the file has 10 bytes where the manifest says" in messages[1]
    os.mkfifo(files[0])
    assert "not a regular file" in stoker.verify(folder).problems[0].message
    assert messages[2:] == [
        f"shard shard-00002-of-00003.tfrecord, record {i}, key k{i + 4}: the index points outside the shard"
        for i in range(2)
    ]


def test_decoding_finds_payloads_that_are_no_images(
    make_dataset: Make, make_jpeg: Callable[..., bytes]
) -> None:
    payloads = [make_jpeg(0), b"no image", make_jpeg(1)[:-200], make_jpeg(2, height=99)]
    folder = make_dataset(payloads=payloads)
    assert stoker.verify(folder).ok
    problems = stoker.verify(folder, decode=True).problems
    assert [problem.key for problem in problems] == ["k1", "k2", "k3"]
    assert "not an image" in problems[0].message
    assert "not decodable" in problems[1].message
    assert "16 x 99, not as the index says" in problems[2].message


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("shard", 2, "the index names shard 2 of 2"),
        ("shard", -1, "the index names shard -1 of 2"),
        ("offset", -5, "the index points outside the shard"),
        ("offset", 2**63 - 1, "the index points outside the shard"),
        ("length", -1, "the index points outside the shard"),
        ("length", 2**63 - 1, "the index points outside the shard"),
        ("crc", 1, "the payload's checksum does not match"),
        ("codec", 0, "bytes are not 12 x 16 pixels"),
        ("codec", 2, "the image is 16 x 12, not as the index says"),
        ("orientation", 3, "the image is 16 x 12, not as the index says"),
    ],
)
def test_a_wrong_value_in_the_index_is_found(folder: Path, name: str, value: int, message: str) -> None:
    values = stoker.open(folder).column(name).astype(np.int64)
    values[3] = value
    rewrite_index(folder, **{name: values})
    problems = stoker.verify(folder, decode=True).problems
    assert [problem.key for problem in problems] == ["k3"]
    assert problems[0].message.endswith(message)
    if name not in ("codec", "orientation"):
        with pytest.raises(ValueError, match=r"checksum|outside|names shard"):
            stoker.open(folder).read(3)
    if name == "shard":
        assert stoker.open(folder).error(3, "bad").shard == f"number {value}"


def test_a_damaged_or_missing_index_is_a_problem(folder: Path) -> None:
    data = bytearray((folder / INDEX_NAME).read_bytes())
    data[100] ^= 255
    (folder / INDEX_NAME).write_bytes(data)
    report = stoker.verify(folder)
    assert [problem.message for problem in report.problems] == [
        "the index is not the one of the manifest: its digest differs"
    ]
    assert (report.samples, report.found, report.ok) == (0, 1, False)
    (folder / INDEX_NAME).unlink()
    assert "missing" in stoker.verify(folder).problems[0].message


def test_a_problem_of_a_sample_whose_key_is_damaged_names_no_key(folder: Path) -> None:
    data = (folder / INDEX_NAME).read_bytes()
    starts, damaged = np.arange(0, 14, 2), np.array([0, 2, 4, 600, 8, 10, 12])  # of k0 to k5
    assert data.count(starts.tobytes()) == 1
    (folder / INDEX_NAME).write_bytes(data.replace(starts.tobytes(), damaged.tobytes()))
    with changed_manifest(folder) as manifest:
        manifest["index"]["digest"] = file_digest(folder / INDEX_NAME)
    flip_bit(stoker.open(folder), 3)
    expected = Problem("the payload's checksum does not match", "shard-00001-of-00002.tfrecord", 0)
    assert expected in stoker.verify(folder).problems


def test_a_wrong_digest_of_a_large_index_is_found_though_the_dataset_can_be_opened(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Opening does not compute the digest of an index of more than 64 MiB.
    monkeypatch.setattr("stoker.formats.dataset.index._SMALL_INDEX", 0)
    with changed_manifest(folder) as manifest:
        manifest["index"]["digest"] = "crc32c:00000000"
    assert len(stoker.open(folder)) == 6
    report = stoker.verify(folder)
    assert ["its digest differs" in problem.message for problem in report.problems] == [True]
    assert (report.samples, report.found) == (6, 1)


def test_files_that_cannot_be_read_are_in_the_report(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path) -> str:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    # A disk that fails cannot be had in a test.
    monkeypatch.setattr("stoker.formats.verify.file_digest", fail)
    problems = stoker.verify(folder).problems
    assert ["cannot be read" in problem.message for problem in problems] == [True] * 3


@pytest.mark.parametrize("error", [OSError(errno.EMFILE, os.strerror(errno.EMFILE)), MemoryError()])
def test_a_process_without_memory_or_descriptors_finds_no_problem(
    pack_images: Callable[..., Path],
    make_jpeg: Callable[..., bytes],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    folder = pack_images([make_jpeg(0)])
    where = "read_header" if isinstance(error, MemoryError) else "open_regular"
    monkeypatch.setattr(f"stoker.formats.verify.{where}", Mock(side_effect=error))
    with pytest.raises(StorageError, match=r"no memory|Too many open files"):
        stoker.verify(folder, decode=True)


def test_all_problems_are_counted_and_the_first_1000_kept(make_dataset: Make) -> None:
    folder, seen = make_dataset(payloads=[b"x"] * 6000, shards=1), []
    with changed_manifest(folder) as manifest:
        manifest["shards"][0]["records"] = 6001
    (problem,) = stoker.verify(folder).problems
    assert problem.message == "6000 records where the manifest says 6001"
    with changed_manifest(folder) as manifest:
        manifest["shards"][0]["records"] = 6000
    report = stoker.verify(folder, decode=True, progress=lambda done, _: seen.append(done))
    assert set(seen) == {*range(0, 6001, 16)}
    assert report.found == 6000
    assert [problem.key for problem in report.problems] == [f"k{i}" for i in range(1000)]


@pytest.mark.filterwarnings("ignore:a bad sample was")
def test_decoding_finds_a_jpeg_with_missing_data_as_a_loader_does(
    pack_images: Make, make_jpeg: Callable[..., bytes]
) -> None:
    # Pillow fills the missing part of such a JPEG with grey if the end marker is there.
    whole = make_jpeg(0, height=64, width=64)
    folder = pack_images([whole, whole[: len(whole) // 2] + b"\xff\xd9"])
    report = stoker.verify(folder, decode=True)
    assert [problem.key for problem in report.problems] == ["k1"]
    with stoker.ImageLoader(
        folder, batch_size=2, transforms=[CenterCrop(64)], engine="native", errors=stoker.BadSamples("skip")
    ) as loader:
        list(loader)
        assert loader.stats().bad_keys == ("k1",)


@pytest.mark.parametrize("external", [False, True])
def test_a_wrong_index_file_of_dali_is_found_and_a_missing_one_is_not_needed(
    tmp_path: Path, make_jpeg: Callable[..., bytes], external: bool
) -> None:
    (tmp_path / "photos" / "a").mkdir(parents=True)
    (tmp_path / "photos" / "a" / "0.jpg").write_bytes(make_jpeg(0))
    stoker.convert(tmp_path / "photos", tmp_path / "shards")
    folder, shard = tmp_path / "shards", stoker.open(tmp_path / "shards").data_files[0]
    if external:
        folder = tmp_path / "external"
        external_index.index([shard], folder)
    assert stoker.verify(folder).ok
    file = folder / (f"{shard.name}.idx" if external else "shard-00000-of-00001.idx")
    content = file.read_text()
    for wrong in (content.replace("0 ", "1 ", 1), content + content, ""):
        file.write_text(wrong)
        (problem,) = stoker.verify(folder).problems
        assert ".idx" in problem.message
    file.unlink()
    assert stoker.verify(folder).ok, "only DALI's reader needs it"


def test_two_names_of_one_label_in_the_records_of_external_shards_are_found(
    tmp_path: Path, make_jpeg: Callable[..., bytes]
) -> None:
    shards = []
    for name, classes in (("a", [b"cat", b"dog"]), ("b", [b"bird", b"dog"])):
        shards.append(tmp_path / name)
        with tfrecord.TFRecordWriter(shards[-1]) as writer:
            for label, text in enumerate(classes):
                features = {"image/class/label": [label], "image/class/text": text}
                record = encode_example({"image/encoded": make_jpeg(label), **features})[0]
                writer.write(b"", record, b"", b"")
            writer.finish()
    # Earlier releases indexed such shards, and took the first name of a label.
    external_index.index(shards, tmp_path / "into", names=FeatureNames(text=None), classes=["cat", "dog"])
    manifest = json.loads((tmp_path / "into" / MANIFEST_NAME).read_text())
    manifest["options"]["text"] = "image/class/text"
    (tmp_path / "into" / MANIFEST_NAME).write_text(json.dumps(manifest))
    (tmp_path / "into" / "sha256.json").unlink()  # which these releases did not write
    assert [str(problem) for problem in stoker.verify(tmp_path / "into").problems] == [
        "shard b, record 0: records contradict each other: label 0 is 'bird' here and 'cat' before"
    ]


@pytest.mark.parametrize("several", [False, True], ids=["one label", "lists of labels"])
def test_a_label_that_is_not_a_class_is_found(folder: Path, several: bool) -> None:
    classes = stoker.open(folder).num_classes
    labels = [0, classes, 0, -1, 0, 0]
    column = ListColumn.of_counts([1, 1, 0, 2, 1, 1], np.array(labels)).to_arrow()
    rewrite_index(folder, label=column if several else np.array(labels))
    problems = stoker.verify(folder).problems
    assert [problem.key for problem in problems] == ["k1", "k3"]
    assert problems[0].message == f"label {classes} is none of the {classes} classes"


def test_a_path_or_an_argument_that_cannot_be_checked_is_refused(make_dataset: Make, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="not a dataset"):
        stoker.verify(tmp_path)
    with pytest.raises(DatasetError, match="stoker stage"):
        stoker.verify("s3://bucket/shards")
    with pytest.raises(ConfigError, match="num_threads"):
        stoker.verify(make_dataset("tfrecord"), num_threads=-1)
