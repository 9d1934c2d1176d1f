"""Tests of datasets of external shards; tests/framework has those that TensorFlow writes."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb as py_lmdb
import numpy as np
import pytest
from helpers.data.pictures import encode
from helpers.data.shards.external_shards import datum, example, write_lmdb, write_tfrecord
from numpy.typing import NDArray
from PIL import Image

import stoker
from stoker.augment import CenterCrop
from stoker.errors import ConfigError, CorruptRecordError, DatasetError, LockedError, SourceError
from stoker.formats.codecs.codec import Codec
from stoker.formats.containers.protobuf import Feature
from stoker.formats.dataset.manifest import MANIFEST_NAME
from stoker.formats.files import folder_lock
from stoker.formats.in_place import shards as external_index
from stoker.formats.in_place import shards as indexer
from stoker.formats.in_place import shards as sample_rows

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
    assert caught.value.hint == "Restore the file, or index the shards again."


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
        SourceError, match=r"not a shard, but holds 2, such as shard-00000.*\.tfrecord"
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
        with pytest.raises(SourceError, match=f"not a shard{containers}"):
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


def test_broken_images_are_skipped_and_counted(tmp_path: Path, make_jpeg: Jpeg) -> None:
    path = write_tfrecord(
        tmp_path / "x", [example(make_jpeg(0), 0), example(b"broken", 1), example(make_jpeg(2), 2)]
    )
    manifest = external_index.index([path], tmp_path / "into")
    dataset = stoker.open(tmp_path / "into")
    assert manifest.skipped == {"image whose header cannot be read": 1}
    assert dataset.labels.tolist() == [0, 2]
    assert dataset.samples([0, 1]).record.tolist() == [0, 2]
    assert stoker.verify(tmp_path / "into").ok


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"image": b"x"}, "no bytes in the feature 'image/encoded'"),
        ({"image/encoded": [1]}, "no bytes in the feature 'image/encoded'"),
        ({"image/encoded": []}, "no bytes in the feature 'image/encoded'"),
        ({"image/encoded": [b"x", b"y"]}, "'image/encoded' holds 2 images"),
        ({"image/class/label": [1, 2]}, "'image/class/label' must be one"),
        ({"image/class/label": b"cat"}, "'image/class/label' must be one"),
        ({"image/format": b"raw", "image/height": [9]}, "raw pixels are not 9 x 0 x 3"),
    ],
)
def test_records_without_a_usable_image_or_label_are_refused(
    tmp_path: Path, make_jpeg: Jpeg, features: dict[str, Feature], message: str
) -> None:
    image: dict[str, Feature] = {} if "image" in features else {"image/encoded": make_jpeg(0)}
    path = write_tfrecord(tmp_path / "x", [example(make_jpeg(0), 0), {**image, **features}])
    with pytest.raises(SourceError, match=message) as caught:
        external_index.index([path], tmp_path / "into")
    assert (caught.value.shard, caught.value.record) == ("x", 1)
    assert not (tmp_path / "into" / MANIFEST_NAME).exists()


def planes(pixels: NDArray[np.uint8]) -> bytes:
    """The bytes of a Datum of (channels, 4, 5) uint8 with label 7."""
    length = bytes([pixels.nbytes])
    return b"\x08%c\x10\x04\x18\x05\x22%b%b\x28\x07" % (len(pixels), length, pixels.tobytes())


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_pixels_in_a_datum_are_bgr_or_grey_planes(tmp_path: Path, engine: str) -> None:
    bgr = np.random.default_rng(0).integers(0, 256, (3, 4, 5), np.uint8)
    values = {b"color": planes(bgr), b"grey": planes(bgr[:1])}
    external_index.index([write_lmdb(tmp_path / "x", values)], tmp_path / "into")
    dataset = stoker.open(tmp_path / "into")
    assert dataset.samples([0, 1]).codec.tolist() == [Codec.PLANES] * 2
    assert dataset.labels.tolist() == [7, 7]
    assert stoker.verify(tmp_path / "into", decode=True).ok
    options: Any = {"transforms": [CenterCrop((4, 5))], "dtype": "uint8", "layout": "NCHW"}
    with stoker.ImageLoader(dataset, batch_size=2, engine=engine, **options) as loader:
        ((images, _),) = loader
    assert np.array_equal(images, [bgr[::-1], np.repeat(bgr[:1], 3, axis=0)])


def test_two_channels_or_floats_in_a_datum_are_refused(tmp_path: Path) -> None:
    two = planes(np.zeros((2, 4, 5), np.uint8))
    with pytest.raises(SourceError, match="pixels of 2 channels"):
        external_index.index([write_lmdb(tmp_path / "x", {b"a": two})], tmp_path / "into")
    with pytest.raises(SourceError, match="found floats"):
        external_index.index([write_lmdb(tmp_path / "y", {b"a": b"\x32\x04" + bytes(4)})], tmp_path / "into")


def test_pixels_in_a_datum_without_a_size_are_skipped_and_counted(tmp_path: Path) -> None:
    good = planes(np.zeros((3, 4, 5), np.uint8))
    minus = b"\xfc" + b"\xff" * 8 + b"\x01"  # -4, a varint of 64 bits
    negative = b"\x08\x01\x10%b\x18%b\x22\x10%b\x28\x00" % (minus, minus, bytes(16))
    empty = b"\x08\x01\x10\x00\x18\x07\x22\x00\x28\x00"
    path = write_lmdb(tmp_path / "x", {b"a": good, b"b": negative, b"c": empty})
    manifest = external_index.index([path], tmp_path / "into")
    assert manifest.skipped == {"image whose header cannot be read": 2}
    assert stoker.open(tmp_path / "into").keys([0]) == ["a"]


def test_a_record_without_a_label_after_one_with_a_label_is_refused(tmp_path: Path, make_jpeg: Jpeg) -> None:
    path = write_tfrecord(tmp_path / "x", [example(make_jpeg(0), 0), {"image/encoded": make_jpeg(1)}])
    with pytest.raises(SourceError, match="no label, unlike those before it"):
        external_index.index([path], tmp_path / "into")


def test_a_label_outside_of_the_named_classes_is_refused(tmp_path: Path, make_jpeg: Jpeg) -> None:
    path = write_tfrecord(tmp_path / "x", [example(make_jpeg(0), 2)])
    with pytest.raises(SourceError, match="label 2, and 2 classes are named"):
        external_index.index([path], tmp_path / "into", classes=["a", "b"])
    below = write_tfrecord(tmp_path / "y", [example(make_jpeg(0), -1)])
    with pytest.raises(SourceError, match="label -1, and 2 classes are named"):
        external_index.index([below], tmp_path / "into", classes=["a", "b"])
    assert external_index.index([path], tmp_path / "into", classes=["a", "b", "c"]).classes == ("a", "b", "c")


def test_classes_cannot_be_named_for_records_without_labels(tmp_path: Path, make_jpeg: Jpeg) -> None:
    path = write_tfrecord(tmp_path / "x", [{"image/encoded": make_jpeg(0)}])
    with pytest.raises(SourceError, match="no label, and classes are named") as caught:
        external_index.index([path], tmp_path / "into", classes=["a", "b"])
    assert "feature with the label" in str(caught.value)


def write_classes(path: Path, image: bytes, *classes: tuple[int, str]) -> Path:
    """A TFRecord file whose records have these labels with these names."""
    records = [example(image, label, **{"image/class/text": name.encode()}) for label, name in classes]
    return write_tfrecord(path, records)


@pytest.mark.parametrize(
    ("first", "second", "record", "message"),
    [
        ([(0, "cat"), (1, "dog")], [(1, "dog"), (0, "bird")], 1, "label 0 is 'bird' here and 'cat' before"),
        ([(0, "cat")], [(1, "cat")], 0, "'cat' is label 1 here and label 0 in other shards"),
        ([(0, "cat"), (0, "bird")], [], 1, "label 0 is 'bird' here and 'cat' before"),
    ],
    ids=["one number for two classes", "two numbers for one class", "in one shard"],
)
def test_shards_whose_class_numbers_contradict_each_other_are_refused(
    tmp_path: Path,
    make_jpeg: Jpeg,
    first: list[tuple[int, str]],
    second: list[tuple[int, str]],
    record: int,
    message: str,
) -> None:
    shards = [
        write_classes(tmp_path / name, make_jpeg(0), *classes)
        for name, classes in (("a", first), ("b", second))
    ]
    with pytest.raises(SourceError, match=message) as caught:
        external_index.index(shards, tmp_path / "into")
    assert (caught.value.shard, caught.value.record) == ("b" if second else "a", record)
    assert "stoker.mix" in str(caught.value.hint)
    assert not (tmp_path / "into").exists()
    # Without the names the numbers alone count.
    names = external_index.FeatureNames(text=None)
    external_index.index(shards, tmp_path / "into", names=names, classes=["x", "y"])
    assert stoker.verify(tmp_path / "into").ok


def test_two_labels_of_one_name_in_one_shard_are_two_classes_as_in_imagenet(
    tmp_path: Path, make_jpeg: Jpeg
) -> None:
    cranes = [(0, "crane"), (1, "dog"), (2, "crane")]
    shards = [
        write_classes(tmp_path / "a", make_jpeg(0), *cranes[:2]),
        write_classes(tmp_path / "b", make_jpeg(1), *cranes[2:]),
        write_classes(tmp_path / "c", make_jpeg(2), *cranes),
    ]
    external_index.index(shards, tmp_path / "into")
    assert stoker.open(tmp_path / "into").classes == ("crane", "dog", "crane")
    assert stoker.verify(tmp_path / "into").ok


def test_named_classes_may_rename_those_of_the_records_but_not_reorder_them(
    tmp_path: Path, make_jpeg: Jpeg
) -> None:
    path = write_classes(tmp_path / "x", make_jpeg(0), (0, "n01"), (1, "n02"))
    with pytest.raises(SourceError, match="label 0 is 'n01' here, which is class 1"):
        external_index.index([path], tmp_path / "into", classes=["n02", "n01"])
    external_index.index([path], tmp_path / "into", classes=["tench", "goldfish"])
    assert stoker.verify(tmp_path / "into").ok


@pytest.mark.parametrize("labels", [[-1, 1], [0, 1_000_000], [-1, 2**62]])
def test_labels_below_0_or_from_a_million_on_have_no_class_names(
    tmp_path: Path, make_jpeg: Jpeg, labels: list[int]
) -> None:
    path = write_tfrecord(tmp_path / "x", [example(make_jpeg(0), label) for label in labels])
    assert external_index.index([path], tmp_path / "into").classes == ()
    assert stoker.open(tmp_path / "into").labels.tolist() == labels
