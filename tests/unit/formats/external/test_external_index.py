"""Tests of datasets of external shards; tests/framework has those that TensorFlow writes."""

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb as py_lmdb
import pytest
from helpers.data.pictures import encode
from helpers.data.shards.external_shards import datum, example, write_lmdb, write_tfrecord
from PIL import Image

import stoker
from stoker.errors import ConfigError, CorruptRecordError, DatasetError, LockedError, SourceError
from stoker.formats.codecs.codec import Codec
from stoker.formats.external import external_index, indexer, sample_rows
from stoker.formats.files.publishing import folder_lock

Jpeg = Callable[..., bytes]


def test_tfrecord_files_are_a_dataset_and_stay_as_they_are(tmp_path: Path, make_jpeg: Jpeg) -> None:
    images = [make_jpeg(i, 10 + i, 20) for i in range(5)]
    examples = [
        example(image, 4 - i, **{"image/class/text": b"class %d" % (4 - i), "image/filename": b"f%d.jpg" % i})
        for i, image in enumerate(images)
    ]
    paths = [
        write_tfrecord(tmp_path / "x-00000-of-00002", examples[:3]),
        write_tfrecord(tmp_path / "x-00001-of-00002", examples[3:]),
    ]
    before = [path.read_bytes() for path in paths]
    reports: list[tuple[int, int]] = []
    manifest = external_index.index(paths, tmp_path / "into", progress=lambda *counts: reports.append(counts))
    dataset = stoker.open(tmp_path / "into")
    assert dataset.manifest == manifest
    assert [dataset.read(i) for i in range(5)] == images
    assert dataset.labels.tolist() == [4, 3, 2, 1, 0]
    assert dataset.keys(range(5)) == [f"f{i}.jpg" for i in range(5)]
    assert dataset.classes == tuple(f"class {i}" for i in range(5))
    assert dataset.samples(range(5)).height.tolist() == [10, 11, 12, 13, 14]
    assert stoker.verify(tmp_path / "into", decode=True).ok
    assert [path.read_bytes() for path in paths] == before
    assert reports[-1] == (sum(map(len, before)),) * 2
    assert reports == sorted(reports)
    assert sorted(path.name for path in (tmp_path / "into").iterdir()) == [
        "dataset.json",
        "index.arrow",
        "x-00000-of-00002.idx",
        "x-00001-of-00002.idx",
    ]


def test_the_features_of_a_record_can_be_named(tmp_path: Path, make_jpeg: Jpeg) -> None:
    path = write_tfrecord(tmp_path / "x", [{"jpg": make_jpeg(0), "cls": [7], "id": b"seven"}])
    names = external_index.FeatureNames(encoded="jpg", label="cls", text=None, key="id")
    external_index.index([path], tmp_path / "into", names=names)
    dataset = stoker.open(tmp_path / "into")
    assert dataset.keys([0]) == ["seven"]
    assert dataset.labels.tolist() == [7]
    assert dataset.classes == ("0", "1", "2", "3", "4", "5", "6", "7")


def test_a_shard_that_was_removed_is_named_when_the_dataset_is_opened(
    tmp_path: Path, make_jpeg: Jpeg
) -> None:
    path = write_tfrecord(tmp_path / "x", [example(make_jpeg(0), 0)])
    external_index.index([path], tmp_path / "into")
    path.rename(tmp_path / "y")
    with pytest.raises(DatasetError, match="shard x is missing") as caught:
        stoker.open(tmp_path / "into")
    assert caught.value.hint == "restore the file, or index the shards again"


def test_records_without_keys_are_numbered_and_labels_are_optional(tmp_path: Path, make_jpeg: Jpeg) -> None:
    path = write_tfrecord(tmp_path / "x", [{"image/encoded": make_jpeg(i)} for i in range(2)])
    external_index.index([path], tmp_path / "into")
    dataset = stoker.open(tmp_path / "into")
    assert dataset.keys([0, 1]) == ["x:0", "x:1"]
    assert dataset.classes == ()
    assert "label" not in dataset.columns


def test_raw_pixels_in_the_features_of_stokers_shards_are_read(tmp_path: Path) -> None:
    pixels = bytes(range(18))
    features = {"image/format": b"RAW", "image/height": [2], "image/width": [3]}
    path = write_tfrecord(tmp_path / "x", [example(pixels, 0, **features)])
    external_index.index([path], tmp_path / "into")
    dataset = stoker.open(tmp_path / "into")
    samples = dataset.samples([0])
    assert (samples.codec[0], samples.height[0], samples.width[0]) == (Codec.RAW, 2, 3)
    assert dataset.read(0) == pixels
    assert stoker.verify(tmp_path / "into", decode=True).ok


def test_an_lmdb_of_datums_is_read(tmp_path: Path, make_jpeg: Jpeg) -> None:
    values = {b"%08d_a" % i: datum(make_jpeg(i, 60 + i), i % 2) for i in range(40)}
    path = write_lmdb(tmp_path / "x", values)
    external_index.index([path], tmp_path / "into")
    dataset = stoker.open(tmp_path / "into")
    assert [dataset.read(i) for i in range(40)] == [make_jpeg(i, 60 + i) for i in range(40)]
    assert dataset.labels.tolist() == [0, 1] * 20
    assert dataset.keys([39]) == ["00000039_a"]
    assert stoker.verify(tmp_path / "into", decode=True).ok


def test_an_lmdb_of_encoded_images_is_read_by_the_path_of_its_data_file(
    tmp_path: Path, make_jpeg: Jpeg
) -> None:
    data = encode(Image.new("RGB", (9, 5)), "PNG")
    path = write_lmdb(tmp_path / "x", {b"a": make_jpeg(0), b"b": data})
    external_index.index([path / "data.mdb"], tmp_path / "into")
    dataset = stoker.open(tmp_path / "into")
    assert dataset.keys([0, 1]) == ["a", "b"]
    assert dataset.samples([0, 1]).codec.tolist() == [Codec.JPEG, Codec.PNG]
    assert dataset.read(1) == data


@pytest.mark.parametrize("classes", [None, ["church", "bedroom"]])
def test_with_label_type_shard_each_lmdb_folder_of_lsun_is_a_class(
    tmp_path: Path, classes: list[str] | None
) -> None:
    data = encode(Image.new("RGB", (9, 5)), "WEBP")
    keys = [hashlib.sha1(name, usedforsecurity=False).hexdigest() for name in (b"a", b"b", b"c")]
    folders = [
        write_lmdb(tmp_path / "church_train_lmdb", {keys[0].encode(): data}),
        write_lmdb(tmp_path / "bedroom_train_lmdb", {key.encode(): data for key in keys[1:]}),
    ]
    external_index.index(folders, tmp_path / "into", names={"label_type": "shard"}, classes=classes)
    assert stoker.verify(tmp_path / "into", decode=True).ok
    dataset = stoker.open(tmp_path / "into")
    assert dataset.classes == tuple(classes or ("church_train_lmdb", "bedroom_train_lmdb"))
    assert dataset.labels.tolist() == [0, 1, 1]
    assert set(dataset.keys(range(3))) == set(keys)


def test_an_lmdb_that_is_a_single_file_is_read(tmp_path: Path, make_jpeg: Jpeg) -> None:
    path = tmp_path / "x.lmdb"
    with py_lmdb.open(os.fspath(path), subdir=False, lock=False) as env, env.begin(write=True) as txn:
        txn.put(b"a", make_jpeg(0))
    external_index.index([path], tmp_path / "into")
    assert stoker.open(tmp_path / "into").read(0) == make_jpeg(0)


def test_shards_in_the_folder_of_the_dataset_may_be_moved_with_it(tmp_path: Path, make_jpeg: Jpeg) -> None:
    home = tmp_path / "home"
    home.mkdir()
    beside = write_tfrecord(home / "x", [example(make_jpeg(0), 0)])
    elsewhere = write_tfrecord(tmp_path / "y", [example(make_jpeg(1), 0)])
    external_index.index([beside, elsewhere], home / "into")
    shutil.move(home, tmp_path / "moved")
    dataset = stoker.open(tmp_path / "moved/into")
    assert [dataset.read(i) for i in range(2)] == [make_jpeg(0), make_jpeg(1)]


def test_shards_of_one_name_get_a_number_before_it(tmp_path: Path, make_jpeg: Jpeg) -> None:
    paths = []
    for i in range(2):
        (tmp_path / str(i)).mkdir()
        paths.append(write_tfrecord(tmp_path / str(i) / "x", [example(make_jpeg(i), i)]))
    external_index.index(paths, tmp_path / "into")
    dataset = stoker.open(tmp_path / "into")
    assert [shard.name for shard in dataset.manifest.shards] == ["00000-x", "00001-x"]
    assert [dataset.read(i) for i in range(2)] == [make_jpeg(0), make_jpeg(1)]


def test_rows_beyond_the_limit_of_memory_are_written_in_parts(
    tmp_path: Path, make_jpeg: Jpeg, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The parts are gone when the index is whole, and the real limit is 262,144 rows.
    monkeypatch.setattr(indexer, "_ROWS_IN_MEMORY", 3)
    write, rows = sample_rows.write_index, []

    def counted(path: Path, columns: dict[str, Any]) -> None:
        rows.append(len(columns["key"]))
        write(path, columns)

    monkeypatch.setattr(sample_rows, "write_index", counted)
    path = write_tfrecord(tmp_path / "x", [example(make_jpeg(i), i) for i in range(10)])
    external_index.index([path], tmp_path / "into")
    assert rows == [3, 3, 3, 1]
    assert stoker.open(tmp_path / "into").labels.tolist() == list(range(10))
    assert stoker.verify(tmp_path / "into", decode=True).ok


def test_damaged_and_compressed_shards_are_refused(tmp_path: Path, make_jpeg: Jpeg) -> None:
    path = write_tfrecord(tmp_path / "x", [example(make_jpeg(i), 0) for i in range(3)])
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptRecordError, match="checksum") as caught:
        external_index.index([path], tmp_path / "into")
    assert caught.value.record == 1
    path.write_bytes(b"\x1f\x8b" + bytes(30))
    with pytest.raises(CorruptRecordError, match="gzip"):
        external_index.index([path], tmp_path / "into")
    assert not (tmp_path / "into").exists()


def test_shards_that_are_missing_named_twice_or_without_images_are_refused(
    tmp_path: Path, make_jpeg: Jpeg
) -> None:
    with pytest.raises(ConfigError, match="no shards"):
        external_index.index([], tmp_path / "into")
    with pytest.raises(SourceError, match="no such shard"):
        external_index.index([tmp_path / "x"], tmp_path / "into")
    with pytest.raises(SourceError, match="no image in these shards"):
        external_index.index([write_tfrecord(tmp_path / "x", [])], tmp_path / "into")
    with pytest.raises(SourceError, match="left out: 2 x image whose header cannot be read"):
        external_index.index([write_tfrecord(tmp_path / "raw", [example(b"raw", 0)] * 2)], tmp_path / "into")
    path = write_tfrecord(tmp_path / "y", [example(make_jpeg(0), 0)])
    with pytest.raises(SourceError, match="more than once"):
        external_index.index([path, tmp_path / "into" / ".." / "y"], tmp_path / "into")


def test_an_index_does_not_replace_a_dataset(tmp_path: Path, make_jpeg: Jpeg) -> None:
    path = write_tfrecord(tmp_path / "y", [example(make_jpeg(0), 0)])
    external_index.index([path], tmp_path / "into")
    with pytest.raises(DatasetError, match="a dataset already"):
        external_index.index([path], tmp_path / "into")


def test_a_folder_of_shards_is_refused_with_a_pattern_as_hint(
    make_dataset: Callable[..., Path], tmp_path: Path
) -> None:
    folder = make_dataset("tfrecord", shards=2)
    with pytest.raises(
        SourceError, match=r"no shard, but holds 2, such as shard-00000.*\.tfrecord"
    ) as caught:
        external_index.index([folder], tmp_path / "into")
    assert f"{folder}/*.tfrecord" in str(caught.value.hint)


def test_folders_and_fifos_are_refused_as_shards(tmp_path: Path, make_jpeg: Jpeg) -> None:
    path = write_tfrecord(tmp_path / "y", [example(make_jpeg(0), 0)])
    os.mkfifo(tmp_path / "fifo")
    for sources, containers in (
        ([tmp_path], ", but holds 1, such as y"),
        ([tmp_path / "fifo"], " of tfrecord or lmdb"),
        ([path, tmp_path / "fifo"], " of tfrecord"),
    ):
        with pytest.raises(SourceError, match=f"no shard{containers}"):
            external_index.index(sources, tmp_path / "into")
    assert not (tmp_path / "into").exists()


def test_a_failure_removes_the_folders_that_it_made(tmp_path: Path) -> None:
    empty = write_tfrecord(tmp_path / "x", [])
    (tmp_path / "existing").mkdir()
    for into in (tmp_path / "a" / "b", tmp_path / "existing"):
        with pytest.raises(SourceError, match="no image in these shards"):
            external_index.index([empty], into)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["existing", "x"]


def test_a_folder_that_another_process_writes_into_is_refused(tmp_path: Path, make_jpeg: Jpeg) -> None:
    path = write_tfrecord(tmp_path / "y", [example(make_jpeg(0), 0)])
    (tmp_path / "into").mkdir()
    with folder_lock(tmp_path / "into"), pytest.raises(LockedError):
        external_index.index([path], tmp_path / "into")


def test_the_files_of_a_killed_run_are_removed(tmp_path: Path, make_jpeg: Jpeg) -> None:
    path = write_tfrecord(tmp_path / "y", [example(make_jpeg(0), 0)])
    (tmp_path / "into" / ".index-killed").mkdir(parents=True)
    external_index.index([path], tmp_path / "into")
    assert not (tmp_path / "into" / ".index-killed").exists()
