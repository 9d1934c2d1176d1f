"""Tests of datasets of external shards; tests/framework has those that TensorFlow writes."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.command_line import run
from helpers.datasets import converted, jpeg, verified
from helpers.images import encode, first_images, png
from helpers.shards import datum, example, write_lmdb, write_tfrecord
from numpy.typing import NDArray
from PIL import Image

import stoker
from stoker.augment import CenterCrop
from stoker.errors import ConfigError, CorruptRecordError, DatasetError, LockedError, SourceError
from stoker.formats.codecs.codec import Codec
from stoker.formats.containers.image_record import FeatureNames
from stoker.formats.containers.protobuf import Feature
from stoker.formats.files import folder_lock
from stoker.formats.in_place import shards as indexing
from stoker.formats.in_place.shards import index

Indexed = Callable[..., stoker.Dataset]
Record = dict[str, Feature]


@pytest.fixture
def indexed(tmp_path: Path) -> Indexed:
    """``indexed(records, **options)``: the dataset of a TFRecord file x of these records, verified."""

    def make(records: list[Any], name: str = "x", into: str = "into", **options: Any) -> stoker.Dataset:
        index([write_tfrecord(tmp_path / name, records)], tmp_path / into, **options)
        return verified(tmp_path / into)

    return make


def test_tfrecord_files_are_a_dataset_and_stay_as_they_are(tmp_path: Path) -> None:
    images = [jpeg(i, 10 + i, 20) for i in range(5)]
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
    manifest = index(paths, tmp_path / "into", progress=lambda *counts: reports.append(counts))
    dataset = verified(tmp_path / "into")
    assert dataset.manifest == manifest
    assert [dataset.read(i) for i in range(5)] == images
    assert dataset.labels.tolist() == [4, 3, 2, 1, 0]
    assert dataset.keys(range(5)) == [f"f{i}.jpg" for i in range(5)]
    assert dataset.classes == tuple(f"class {i}" for i in range(5))
    assert dataset.samples(range(5)).height.tolist() == [10, 11, 12, 13, 14]
    assert [path.read_bytes() for path in paths] == before
    assert reports[-1] == (sum(map(len, before)),) * 2
    assert reports == sorted(reports)
    assert sorted(path.name for path in (tmp_path / "into").iterdir()) == [
        "dataset.json",
        "index.arrow",
        "sha256.json",
        "x-00000-of-00002.idx",
        "x-00001-of-00002.idx",
    ]


def test_the_features_of_a_record_can_be_named(indexed: Indexed) -> None:
    names = FeatureNames(encoded="jpg", label="cls", text=None, key="id")
    dataset = indexed([{"jpg": jpeg(0), "cls": [7], "id": b"seven"}], names=names)
    assert (dataset.keys([0]), dataset.labels.tolist()) == (["seven"], [7])
    assert dataset.classes == ("0", "1", "2", "3", "4", "5", "6", "7")


def test_records_without_keys_are_numbered_and_labels_are_optional(indexed: Indexed) -> None:
    dataset = indexed([{"image/encoded": jpeg(i)} for i in range(2)])
    assert (dataset.keys([0, 1]), dataset.classes) == (["x:0", "x:1"], ())
    assert "label" not in dataset.columns


def test_a_shard_that_was_removed_is_named_when_the_dataset_is_opened(
    tmp_path: Path, indexed: Indexed
) -> None:
    indexed([example(jpeg(0), 0)])
    (tmp_path / "x").rename(tmp_path / "y")
    with pytest.raises(DatasetError, match="shard x is missing") as caught:
        stoker.open(tmp_path / "into")
    assert "index the shards again" in str(caught.value.hint)


def test_shards_in_the_folder_of_the_dataset_may_be_moved_with_it(tmp_path: Path) -> None:
    (home := tmp_path / "home").mkdir()
    beside = write_tfrecord(home / "x", [example(jpeg(0), 0)])
    elsewhere = write_tfrecord(tmp_path / "y", [example(jpeg(1), 0)])
    index([beside, elsewhere], home / "into")
    shutil.move(home, tmp_path / "moved")
    dataset = stoker.open(tmp_path / "moved/into")
    assert [dataset.read(i) for i in range(2)] == [jpeg(0), jpeg(1)]


def test_shards_of_one_name_get_a_number_before_it(tmp_path: Path) -> None:
    paths = []
    for i in range(2):
        (tmp_path / str(i)).mkdir()
        paths.append(write_tfrecord(tmp_path / str(i) / "x", [example(jpeg(i), i)]))
    index(paths, tmp_path / "into")
    dataset = stoker.open(tmp_path / "into")
    assert [shard.name for shard in dataset.manifest.shards] == ["00000-x", "00001-x"]
    assert [dataset.read(i) for i in range(2)] == [jpeg(0), jpeg(1)]


def test_rows_beyond_the_limit_of_memory_are_written_in_parts(
    indexed: Indexed, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The parts are gone when the index is whole, and the real limit is 262,144 rows.
    monkeypatch.setattr(indexing, "_ROWS_IN_MEMORY", 3)
    write, rows = indexing.write_index, []

    def counted(path: Path, columns: dict[str, Any]) -> None:
        rows.append(len(columns["key"]))
        write(path, columns)

    monkeypatch.setattr(indexing, "write_index", counted)
    assert indexed([example(jpeg(i), i) for i in range(10)]).labels.tolist() == list(range(10))
    assert rows == [3, 3, 3, 1]


def test_broken_images_are_skipped_and_counted(indexed: Indexed) -> None:
    dataset = indexed([example(jpeg(0), 0), example(b"broken", 1), example(jpeg(2), 2)])
    assert dataset.manifest.skipped == {"image whose header cannot be read": 1}
    assert dataset.labels.tolist() == [0, 2]
    assert dataset.samples([0, 1]).record.tolist() == [0, 2]


class TestLMDB:
    def test_datums_are_read(self, tmp_path: Path) -> None:
        values = {b"%08d_a" % i: datum(jpeg(i, 60 + i), i % 2) for i in range(40)}
        index([write_lmdb(tmp_path / "x", values)], tmp_path / "into")
        dataset = verified(tmp_path / "into")
        assert [dataset.read(i) for i in range(40)] == [jpeg(i, 60 + i) for i in range(40)]
        assert dataset.labels.tolist() == [0, 1] * 20
        assert dataset.keys([39]) == ["00000039_a"]

    @pytest.mark.parametrize("name", ["x/data.mdb", "x.lmdb"])
    def test_encoded_images_are_read_by_the_path_of_the_data_file(self, tmp_path: Path, name: str) -> None:
        data = encode(Image.new("RGB", (9, 5)), "PNG")
        path = write_lmdb(tmp_path / "x", {b"a": jpeg(0), b"b": data}) / "data.mdb"
        index([path.rename(tmp_path / name)], tmp_path / "into")
        dataset = stoker.open(tmp_path / "into")
        assert (dataset.keys([0, 1]), dataset.read(1)) == (["a", "b"], data)
        assert dataset.samples([0, 1]).codec.tolist() == [Codec.JPEG, Codec.PNG]

    @pytest.mark.parametrize("classes", [None, ["church", "bedroom"]])
    def test_with_label_type_shard_each_folder_of_lsun_is_a_class(
        self, tmp_path: Path, classes: list[str] | None
    ) -> None:
        data = encode(Image.new("RGB", (9, 5)), "WEBP")
        keys = [hashlib.sha1(name, usedforsecurity=False).hexdigest() for name in (b"a", b"b", b"c")]
        folders = [
            write_lmdb(tmp_path / "church_train_lmdb", {keys[0].encode(): data}),
            write_lmdb(tmp_path / "bedroom_train_lmdb", {key.encode(): data for key in keys[1:]}),
        ]
        index(folders, tmp_path / "into", names={"label_type": "shard"}, classes=classes)
        dataset = verified(tmp_path / "into")
        assert dataset.classes == tuple(classes or ("church_train_lmdb", "bedroom_train_lmdb"))
        assert dataset.labels.tolist() == [0, 1, 1]
        assert set(dataset.keys(range(3))) == set(keys)

    @pytest.mark.parametrize("engine", ["native", "reference"])
    def test_pixels_in_a_datum_are_bgr_or_grey_planes(self, tmp_path: Path, engine: str) -> None:
        bgr = np.random.default_rng(0).integers(0, 256, (3, 4, 5), np.uint8)
        values = {b"color": planes(bgr), b"grey": planes(bgr[:1])}
        index([write_lmdb(tmp_path / "x", values)], tmp_path / "into")
        dataset = verified(tmp_path / "into")
        assert dataset.samples([0, 1]).codec.tolist() == [Codec.PLANES] * 2
        assert dataset.labels.tolist() == [7, 7]
        images = first_images(dataset, [CenterCrop((4, 5))], batch_size=2, dtype="uint8", engine=engine)
        assert np.array_equal(images, [bgr[::-1], np.repeat(bgr[:1], 3, axis=0)])

    def test_pixels_without_a_size_are_skipped_and_counted(self, tmp_path: Path) -> None:
        good = planes(np.zeros((3, 4, 5), np.uint8))
        minus = b"\xfc" + b"\xff" * 8 + b"\x01"  # -4, a varint of 64 bits
        negative = b"\x08\x01\x10%b\x18%b\x22\x10%b\x28\x00" % (minus, minus, bytes(16))
        empty = b"\x08\x01\x10\x00\x18\x07\x22\x00\x28\x00"
        path = write_lmdb(tmp_path / "x", {b"a": good, b"b": negative, b"c": empty})
        manifest = index([path], tmp_path / "into")
        assert manifest.skipped == {"image whose header cannot be read": 2}
        assert stoker.open(tmp_path / "into").keys([0]) == ["a"]

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            (b"\x08\x02\x10\x04\x18\x05\x22\x28%b\x28\x07" % bytes(40), "pixels of 2 channels"),
            (b"\x32\x04" + bytes(4), "found floats"),
        ],
    )
    def test_two_channels_or_floats_are_refused(self, tmp_path: Path, value: bytes, message: str) -> None:
        with pytest.raises(SourceError, match=message):
            index([write_lmdb(tmp_path / "x", {b"a": value})], tmp_path / "into")


def planes(pixels: NDArray[np.uint8]) -> bytes:
    """The bytes of a Datum of (channels, 4, 5) uint8 with label 7."""
    length = bytes([pixels.nbytes])
    return b"\x08%c\x10\x04\x18\x05\x22%b%b\x28\x07" % (len(pixels), length, pixels.tobytes())


RAW = {"encoded": "img_raw", "label": "label", "raw": True}
SIZED = {**RAW, "height": "height", "width": "width"}


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize("shape", [(4, 5, 3), (4, 5, 1), (4, 5)])
def test_raw_pixels_have_one_shape_or_a_size_in_each_record(
    indexed: Indexed, shape: tuple[int, ...], sized: bool, engine: str
) -> None:
    images = np.random.default_rng(0).integers(0, 256, (2, *shape), np.uint8)
    records = [
        {"img_raw": image.tobytes(), "label": [i], "height": [4], "width": [5]}
        for i, image in enumerate(images)
    ]
    dataset = indexed(records, names=SIZED if sized else {**RAW, "shape": shape})
    batch = first_images(
        dataset, [CenterCrop((4, 5))], batch_size=2, dtype="uint8", layout="NHWC", engine=engine
    )
    assert np.array_equal(batch, np.broadcast_to(images.reshape(2, 4, 5, -1), (2, 4, 5, 3)))
    assert dataset.labels.tolist() == [0, 1]


def test_raw_pixels_in_the_features_of_stokers_shards_are_read(indexed: Indexed) -> None:
    pixels = bytes(range(18))
    dataset = indexed(
        [example(pixels, 0, **{"image/format": b"RAW", "image/height": [2], "image/width": [3]})]
    )
    samples = dataset.samples([0])
    assert (samples.codec[0], samples.height[0], samples.width[0]) == (Codec.RAW, 2, 3)
    assert dataset.read(0) == pixels


@pytest.mark.parametrize(
    ("label_type", "stored", "expected"),
    [
        ("int", [[3.0], [1.0]], [3, 1]),
        ("one-hot", [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], [2, 0]),
        ("one-hot", [[0, 1], [1, 0]], [1, 0]),
        ("several", [[2, 0], []], [[2, 0], []]),
        ("multi-hot", [[1, 0, 1], [0, 0, 0]], [[0, 2], []]),
    ],
)
def test_labels_are_read_in_each_form(
    indexed: Indexed, label_type: str, stored: list[Any], expected: list[Any]
) -> None:
    records = [{"image/encoded": jpeg(i), "y": values} for i, values in enumerate(stored)]
    dataset = indexed(records, names={"label": "y", "label_type": label_type})
    if dataset.tasks == {"label"}:
        assert dataset.labels.tolist() == expected
    else:
        lists = [dataset.lists("label", [i]).values.tolist() for i in range(2)]
        assert (dataset.tasks, lists) == ({"labels"}, expected)
    assert dataset.num_classes == max(np.hstack(expected).astype(int)) + 1


def test_a_float_label_is_a_number_in_batches(indexed: Indexed) -> None:
    records = [{"image/encoded": jpeg(i), "y": [i - 0.5]} for i in range(2)]
    dataset = indexed(records, names={"label": "y", "label_type": "float"})
    assert (dataset.tasks, dataset.classes) == (frozenset(), ())
    with stoker.ImageLoader(dataset, batch_size=2, transforms=[CenterCrop(8)], num_threads=1) as loader:
        ((_, labels),) = loader
    assert (labels.dtype, labels.tolist()) == (np.float32, [-0.5, 0.5])


def test_labels_from_a_million_on_have_no_class_names(indexed: Indexed) -> None:
    dataset = indexed([example(jpeg(0), label) for label in (0, 1_000_000)])
    assert (dataset.classes, dataset.num_classes) == ((), 1_000_001)
    with pytest.raises(SourceError, match=r"must be 0 or more, found -1(?s:.)*label_type float"):
        indexed([example(jpeg(0), -1)], "y", "negative")


def test_a_missing_value_does_not_change_large_integers(indexed: Indexed) -> None:
    records = [{"image/encoded": jpeg(0), "n": [(1 << 53) + 1]}, {"image/encoded": jpeg(1)}]
    with pytest.raises(SourceError, match="column 'n' must keep its integers, found 9007199254740993"):
        indexed(records, names={"columns": {"n": "n"}})


def test_features_of_one_value_can_be_columns(indexed: Indexed) -> None:
    records = [
        {"image/encoded": jpeg(0), "text": b"a cat", "score": [0.5], "count": [2]},
        {"image/encoded": jpeg(1), "text": [], "count": [3]},
    ]
    dataset = indexed(records, names={"columns": {"caption": "text", "score": "score", "n": "count"}})
    assert dataset.strings("caption", [0, 1]) == ["a cat", ""]
    assert np.array_equal(dataset.column("score"), [0.5, np.nan], equal_nan=True)
    assert dataset.column("n").tolist() == [2, 3]


def detection(image: bytes, boxes: list[list[float]], labels: list[int], **more: Any) -> Record:
    """A record of the object detection API; boxes are ymin, xmin, ymax, xmax in shares."""
    sides = zip(*boxes, strict=True) if boxes else ([],) * 4
    features: Record = {
        f"image/object/bbox/{side}": list(values)
        for side, values in zip(("ymin", "xmin", "ymax", "xmax"), sides, strict=True)
    }
    named = {f"image/object/{name}": value for name, value in more.items()}
    return {"image/encoded": image, **features, "image/object/class/label": labels, **named}


def test_objects_of_the_object_detection_api_are_clipped_and_counted(indexed: Indexed) -> None:
    image = jpeg(0, 20, 40)
    names = {"class/text": [b"dog", b"cat"], "is_crowd": [0, 1], "area": [3.0, 4.0], "difficult": [1, 0]}
    imagenet = detection(image, [[0.0, 0.0, 1.0, 1.0]], [1])
    del imagenet["image/object/class/label"]
    records = [
        imagenet,
        detection(image, [[0.1, 0.25, 0.5, 0.75], [0.0, 0.0, 1.05, 1.0]], [2, 1], **names),
        detection(image, [], []),
        detection(image, [[0.5, 0.5, 0.5, 0.6], [0.0, 0.0, 0.5, 0.5]], [2, 1]),
    ]
    dataset = indexed(records)
    assert (dataset.tasks, dataset.classes) == ({"boxes"}, ("cat", "dog"))
    objects = dataset.annotations(range(4))
    assert objects.owner.tolist() == [1, 1, 3]
    assert objects.boxes.tolist() == [[10, 2, 30, 10], [0, 0, 40, 20], [0, 0, 20, 10]]
    assert (objects.labels.tolist(), objects.crowd.tolist()) == ([1, 0, 0], [False, True, False])
    assert (objects.area.tolist(), objects.extra["difficult"].tolist()) == ([3, 4, 200], [1, 0, 0])
    assert dataset.manifest.skipped == {
        "object without an area": 1,
        "annotation in the feature 'image/object/bbox', which is not read": 1,  # boxes without classes
    }
    assert indexed(records, name="y", into="without", names={"objects": ""}).tasks == frozenset()


def test_annotations_and_arrays_that_are_not_read_are_counted(indexed: Indexed) -> None:
    more = {"mask": [0.0, 1.0], "keypoint/x": [0.5], "keypoint/y": [0.5], "view": [b"Frontal", b"Rear"]}
    more["group_of"] = [0, 1]
    record = detection(jpeg(0), [[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.5, 0.5]], [1, 1], **more)
    record |= {"image/segmentation/instance/encoded": b"png"}
    record |= {"depth": bytes(8), "depth/shape": [2], "depth/dtype": b"<f4", "image/colorspace": b"RGB"}
    objects = {
        f"annotation in the feature 'image/object/{part}', which is not read" for part in ("mask", "keypoint")
    }
    others = {
        "annotation in the feature 'image/segmentation/instance', which is not read",
        "array in the feature 'depth', which is not read",
    }
    dataset = indexed([record, record])
    assert dict(dataset.manifest.skipped) == dict.fromkeys(objects | others, 2)
    assert dataset.annotations([0]).crowd.tolist() == [False, True]
    without = indexed([record], name="y", into="without", names={"objects": ""})
    assert set(without.manifest.skipped) == others


def test_names_of_classes_without_numbers_are_refused(indexed: Indexed) -> None:
    record = detection(jpeg(0), [[0.0, 0.0, 1.0, 1.0]], [1], **{"class/text": [b"owl"]})
    del record["image/object/class/label"]
    with pytest.raises(SourceError, match="names of their classes in class/text, and no numbers"):
        indexed([record])


def test_masks_of_the_object_detection_api_and_of_deeplab_are_read(indexed: Indexed) -> None:
    classes = np.zeros((20, 40), np.uint8)
    classes[2:10, 10:30], classes[15:, 30:] = 1, 7
    masks = [png(np.where(classes == value, 255, 0).astype(np.uint8)) for value in (1, 7)]
    boxes = [[0.1, 0.25, 0.5, 0.75], [0.75, 0.75, 1.0, 1.0]]
    whole = detection(jpeg(0, 20, 40), boxes, [1, 2], mask=masks)
    segmentation = {
        "image/segmentation/class/encoded": png(classes),
        "image/segmentation/class/format": b"png",
    }
    small = png(np.zeros((20, 39), np.uint8))
    broken = detection(jpeg(1, 20, 40), boxes, [1, 2], mask=[small, b"x"]) | segmentation
    wrong = [{**whole, "image/segmentation/class/encoded": mask} for mask in (small, b"x")]
    dataset = indexed([whole | segmentation, whole, broken, *wrong])
    assert (dataset.tasks, len(dataset)) == ({"boxes", "instances", "segmentation"}, 2)
    assert dataset.manifest.skipped == {
        "image without a class mask": 1,
        "mask of another size than the image": 1,
        "broken mask": 1,
        "mask of another size than the image of an object": 1,
        "broken mask of an object": 1,
    }
    assert dataset.annotations([0, 1]).has_mask.tolist() == [True, True, False, False]
    columns, crop = ("image", "masks", "segmentation"), [CenterCrop((20, 40))]
    with stoker.ImageLoader(dataset, batch_size=2, columns=columns, transforms=crop) as loader:
        batch = next(iter(loader))
    assert (batch.segmentation == classes).all()
    assert (batch.masks[0] == [classes == 1, classes == 7]).all()
    assert stoker.verify(dataset.path, decode=True).ok
    later = indexed([whole, whole | segmentation], name="y", into="later")
    assert later.tasks == {"boxes", "instances"}
    assert later.manifest.skipped == {"class mask, which the records before it lack": 1}


@pytest.mark.usefixtures("every_event")
@pytest.mark.parametrize(("foreground", "says"), [(255, True), (1, False)])
def test_class_masks_whose_foreground_is_ignored_are_reported_and_can_be_mapped(
    indexed: Indexed, tmp_path: Path, caplog: pytest.LogCaptureFixture, foreground: int, says: bool
) -> None:
    mask = np.zeros((20, 40), np.uint8)
    mask[4:16, 8:32] = foreground
    dataset = indexed([{"image/encoded": jpeg(0, 20, 40), "image/segmentation/class/encoded": png(mask)}])
    assert ("values 0 and 255 alone, and 255 is ignored" in caplog.text) == says
    assert "no labels" not in caplog.text
    options = {"mask_map": f"0:0,{foreground}:1"}
    found = converted(dataset.data_files[0], tmp_path / "mapped", **options)
    with Image.open(io.BytesIO(found.mask(0))) as image:
        assert np.unique(np.asarray(image)).tolist() == [0, 1]


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_masks_and_arrays_of_a_writers_shards_are_counted(tmp_path: Path, container: Any) -> None:
    with stoker.Writer(tmp_path / "written", container=container) as writer:
        writer.write(jpeg(0, 8, 8), segmentation=np.zeros((8, 8), np.uint8), depth=np.zeros(3, np.float32))
    manifest = index(stoker.open(tmp_path / "written").data_files, tmp_path / "into")
    assert {reason.split()[0] for reason in manifest.skipped} <= {"class", "array"}
    reads_masks = container == "tfrecord"
    assert ("mask_offset" in manifest.columns, len(manifest.skipped)) == (reads_masks, 2 - reads_masks)


def test_shards_of_a_writer_can_be_indexed_with_their_objects(tmp_path: Path) -> None:
    """Stoker's own shards have the features of the API."""
    with stoker.Writer(tmp_path / "written", classes=["a", "b"]) as writer:
        for i in range(3):
            boxes = np.array([[1, 2, 7, 8.5]] * i, np.float32).reshape(-1, 4)
            writer.write(image=jpeg(i, 20, 30), boxes=boxes, box_labels=[1] * i, key=str(i))
    written = stoker.open(tmp_path / "written")
    index(written.data_files, tmp_path / "into")
    indexed = stoker.open(tmp_path / "into")
    assert indexed.classes == ("0", "b")
    objects, expected = (dataset.annotations(range(3)) for dataset in (indexed, written))
    for name in ("owner", "labels", "crowd", "area"):
        assert getattr(objects, name).tolist() == getattr(expected, name).tolist()
    np.testing.assert_allclose(objects.boxes, expected.boxes, rtol=1e-6)


def _label(label_type: str, values: list[Any]) -> tuple[Record, dict[str, Any]]:
    return {"image/encoded": jpeg(0), "y": values}, {"names": {"label": "y", "label_type": label_type}}


_PIXELS: Record = {"img_raw": bytes(60), "label": [0], "height": [4], "width": [5]}
_WHOLE = [[0.0, 0.0, 1.0, 1.0]]


@pytest.mark.parametrize(
    ("record", "options", "message"),
    [
        ({"image": b"x"}, {}, "no bytes in the feature 'image/encoded'"),
        ({"image/encoded": [1]}, {}, "no bytes in the feature 'image/encoded'"),
        ({"image/encoded": []}, {}, "no bytes in the feature 'image/encoded'"),
        ({"image/encoded": [b"x", b"y"]}, {}, "'image/encoded' holds 2 images"),
        (example(jpeg(0), 0, **{"image/class/label": [1, 2]}), {}, "'image/class/label' must be one number"),
        (example(jpeg(0), 0, **{"image/class/label": b"cat"}), {}, "'image/class/label' must be one integer"),
        (
            example(jpeg(0), 0, **{"image/format": b"raw", "image/height": [9]}),
            {},
            "raw pixels are not 9 x 0 x 3",
        ),
        (_PIXELS, {"names": {**RAW, "shape": (4, 4, 3)}}, "60 bytes of raw pixels are not 4 x 4 x 3 pixels"),
        (_PIXELS, {"names": {**SIZED, "height": "width"}}, "neither grey nor RGB of 5 x 5"),
        (_PIXELS, {"names": {**SIZED, "height": "none"}}, "neither grey nor RGB of 0 x 5"),
        (*_label("int", [0.5]), "'y' must be one integer, found 0.5"),
        (*_label("int", [1, 2]), "'y' must be one number, found 2"),
        (*_label("one-hot", [1.0, 1.0]), "'y' must be one-hot, with one 1, found 2"),
        (*_label("one-hot", [1.0, 0.5]), "'y' must be one-hot, with numbers 0 and 1, found 0.5"),
        (*_label("multi-hot", [2, 0]), "'y' must be multi-hot, with numbers 0 and 1, found 2"),
        (*_label("several", [0.5]), "'y' must be one integer, found 0.5"),
        ({"image/encoded": jpeg(0), "n": [1, 2]}, {"names": {"columns": {"n": "n"}}}, "'n' holds 2 values"),
        *(
            ({"image/encoded": jpeg(0), "n": values}, {"names": {"columns": {"n": "n"}}}, message)
            for values, message in (
                ([np.float32([0.5, -0.3]).tobytes()], "'n' holds bytes that are not text"),
                ([0.5, -0.3], "'n' holds 2 values"),
            )
        ),
        *(
            (
                *_label(label_type, [2.0, 5.0, 1.0, 0.1, 0.2, 0.5, 0.6, 0.0, 0.3, 0.3, 0.9, 0.8]),
                "boxes of MXNet's detection",
            )
            for label_type in ("int", "float", "several")
        ),
        *(
            (*_label(label_type, [0.25, 1.5]), "'y' must be numbers of classes, found 2 numbers such as 0.25")
            for label_type in ("int", "float", "several")
        ),
        (detection(jpeg(0), [[0.0, 0.0, 20.0, 40.0]], [1]), {}, "is not in shares of the image's width"),
        (detection(jpeg(0), _WHOLE, [0]), {}, "label 0, and the object detection API counts classes from 1"),
        (detection(jpeg(0), _WHOLE, [1, 2]), {}, "class/label has 2 numbers where bbox/xmin has 1"),
        (example(jpeg(0), 2), {"classes": ["a", "b"]}, "label 2, and 2 classes are named"),
        ({"image/encoded": jpeg(0)}, {"classes": ["a"]}, "no label, and classes are named"),
    ],
)
def test_a_record_that_cannot_be_used_is_refused_with_shard_and_record(
    tmp_path: Path, indexed: Indexed, record: Record, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(SourceError, match=message) as caught:
        indexed([record], **options)
    assert (caught.value.shard, caught.value.record) == ("x", 0)
    assert caught.value.hint
    assert not (tmp_path / "into").exists()


def test_a_record_without_a_label_after_one_with_a_label_is_refused(indexed: Indexed) -> None:
    with pytest.raises(SourceError, match="no label, unlike those before it") as caught:
        indexed([example(jpeg(0), 0), {"image/encoded": jpeg(1)}])
    assert caught.value.record == 1


def write_damaged(folder: Path, unlabelled: int) -> str:
    """A pattern of four archives: a sample of the first has no label, and two of the others are damaged."""
    for number in range(4):
        with tarfile.open(folder / f"{number}.tar", "w") as archive:
            for i in range(6):
                members = {"jpg": jpeg(i, 20, 20), "cls": b"1"}
                if (number, i) == (0, unlabelled):
                    del members["cls"]
                for suffix, data in members.items():
                    header = tarfile.TarInfo(f"{number}{i}.{suffix}")
                    header.size = len(data)
                    archive.addfile(header, io.BytesIO(data))
    data = (folder / "1.tar").read_bytes()
    (folder / "1.tar").write_bytes(data[: len(data) // 2])
    (folder / "2.tar").write_bytes(b"x" + (folder / "2.tar").read_bytes()[1:])
    return str(folder / "*.tar")


@pytest.mark.parametrize("unlabelled", [0, 3, 5])
@pytest.mark.parametrize("door", ["index", "convert"])
def test_one_error_names_all_damage_which_allow_loss_leaves_out(
    tmp_path: Path, door: str, unlabelled: int
) -> None:
    source, into = write_damaged(tmp_path, unlabelled), tmp_path / "into"
    command = ("index", source, "--into", into) if door == "index" else ("convert", source, into)
    with pytest.raises((SourceError, CorruptRecordError)) as caught:
        run(*command)
    lines = str(caught.value).splitlines()
    assert [sum(f"{number}.tar" in line for line in lines) for number in range(4)] == [1, 1, 1, 0]
    assert f"'0{unlabelled}'" in str(caught.value)
    assert "checksum of a header" in str(caught.value)
    assert not into.exists()
    with pytest.raises((SourceError, CorruptRecordError)):
        run(*command, "--allow-loss", "1%")
    printed = run(*command, "--allow-loss", "30%")
    assert "skipped 3: record or file that cannot be used" in printed
    dataset = stoker.open(into)
    keys = dataset.keys(range(len(dataset)))
    assert {f"0{i}" for i in range(6)} - set(keys) == {f"0{unlabelled}"}
    assert {key for key in keys if key[0] in "23"} == {f"3{i}" for i in range(6)}
    assert set(dataset.labels.tolist()) == {1}
    assert sum(len(batch.label) for batch in stoker.ImageLoader(dataset, batch_size=4, transforms=[])) == len(
        keys
    )


def test_damaged_tfrecords_are_left_out_of_a_conversion_as_of_an_index(tmp_path: Path) -> None:
    for number in range(3):
        write_tfrecord(tmp_path / f"{number}.tfrecord", [example(jpeg(i), i % 2) for i in range(4)])
    data = bytearray((tmp_path / "1.tfrecord").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "1.tfrecord").write_bytes(data)
    command = ("convert", str(tmp_path / "*.tfrecord"), tmp_path / "out")
    with pytest.raises(
        CorruptRecordError, match=r"(?s)checksum.*1\.tfrecord.*On the command line: --allow-loss"
    ):
        run(*command)
    assert "skipped 1: record or file that cannot be used" in run(*command, "--allow-loss", "20%")
    assert len(stoker.open(tmp_path / "out")) == 10


def test_a_wrong_option_is_not_an_error_of_every_record(indexed: Indexed) -> None:
    records = [example(jpeg(0), b"name%d" % i) for i in range(200)]
    with pytest.raises(SourceError, match="label") as caught:
        indexed(records, names={"label_type": "float"})
    assert str(caught.value).count("Also:") < 30


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"shape": "4x4"}, "height, width and shape are for raw pixels"),
        ({"raw": True, "shape": "3x4x4"}, "1 or 3 channels, found 3x4x4"),
        ({"raw": True, "shape": "32 32"}, "such as 32x32x3, found '32 32'"),
        ({"label_type": "name"}, "label_type must be one of int, float, first, several"),
    ],
)
def test_invalid_names_of_features_are_refused(names: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        FeatureNames.from_manifest(names)


def write_classes(path: Path, *classes: tuple[int, str]) -> Path:
    """A TFRecord file whose records have these labels with these names."""
    records = [example(jpeg(0), label, **{"image/class/text": name.encode()}) for label, name in classes]
    return write_tfrecord(path, records)  # type: ignore[arg-type]  # a list of dicts


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
    tmp_path: Path, first: list[tuple[int, str]], second: list[tuple[int, str]], record: int, message: str
) -> None:
    shards = [write_classes(tmp_path / "a", *first), write_classes(tmp_path / "b", *second)]
    with pytest.raises(SourceError, match=message) as caught:
        index(shards, tmp_path / "into")
    assert (caught.value.shard, caught.value.record) == ("b" if second else "a", record)
    assert "stoker.mix" in str(caught.value.hint)
    assert not (tmp_path / "into").exists()
    # Without the names the numbers alone count.
    index(shards, tmp_path / "into", names=FeatureNames(text=None), classes=["x", "y"])
    assert stoker.verify(tmp_path / "into").ok


def test_two_labels_of_one_name_in_one_shard_are_two_classes_as_in_imagenet(tmp_path: Path) -> None:
    cranes = [(0, "crane"), (1, "dog"), (2, "crane")]
    shards = [
        write_classes(tmp_path / name, *classes)
        for name, classes in (("a", cranes[:2]), ("b", cranes[2:]), ("c", cranes))
    ]
    index(shards, tmp_path / "into")
    dataset = verified(tmp_path / "into")
    assert dataset.classes == ("crane", "dog", "crane")
    some = dataset.select(classes="crane", renumber=True)  # all classes of the name
    assert (some.classes, some.labels.tolist()) == (("crane", "crane"), [0, 1, 0, 1])


def test_named_classes_may_rename_those_of_the_records_but_not_reorder_them(tmp_path: Path) -> None:
    path = write_classes(tmp_path / "x", (0, "n01"), (1, "n02"))
    with pytest.raises(SourceError, match="label 0 is 'n01' here, which is class 1"):
        index([path], tmp_path / "into", classes=["n02", "n01"])
    index([path], tmp_path / "into", classes=["tench", "goldfish"])
    assert verified(tmp_path / "into").classes == ("tench", "goldfish")


def test_a_shard_that_begins_as_a_listing_of_files_is_none(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name in ("STKLIST1", "b"):
            member = tarfile.TarInfo(f"{name}.jpg")
            member.size = len(jpeg(1))
            archive.addfile(member, io.BytesIO(jpeg(1)))
    loader = stoker.ImageLoader(stoker.open(tmp_path / "a.tar"), batch_size=2, columns=("image", "key"))
    assert [batch.key for batch in loader] == [["STKLIST1", "b"]]


def test_damaged_and_compressed_shards_are_refused(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "x", [example(jpeg(i), 0) for i in range(3)])
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptRecordError, match="checksum") as caught:
        index([path], tmp_path / "into")
    assert caught.value.record == 1
    path.write_bytes(b"\x1f\x8b" + bytes(30))
    with pytest.raises(CorruptRecordError, match="gzip"):
        index([path], tmp_path / "into")
    assert not (tmp_path / "into").exists()


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        ([], ConfigError, "no shards"),
        (["none"], SourceError, "no such shard"),
        (["empty"], SourceError, "no image in these shards"),
        (["raw"], SourceError, "left out: 2 x image whose header cannot be read"),
        (["y", "into/../y"], SourceError, "more than once"),
        (["folder"], SourceError, r"not a shard, but holds 1, such as a\.bin.*\n.*folder/\*\.bin"),
        (["fifo"], SourceError, "not a shard of tfrecord or lmdb"),
        (["y", "fifo"], SourceError, "not a shard of tfrecord"),
    ],
)
def test_paths_that_are_not_shards_with_images_are_refused(
    tmp_path: Path, names: list[str], error: type[Exception], message: str
) -> None:
    (tmp_path / "folder").mkdir()
    write_tfrecord(tmp_path / "folder" / "a.bin", [example(jpeg(0), 0)])
    write_tfrecord(tmp_path / "empty", [])
    write_tfrecord(tmp_path / "raw", [example(b"raw", 0)] * 2)
    write_tfrecord(tmp_path / "y", [example(jpeg(0), 0)])
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(error, match=message):
        index([tmp_path / name for name in names], tmp_path / "into")
    assert not (tmp_path / "into").exists()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a*"], r"1 of the 3 shards a-\*-of-00003\.tfrecord is missing: a-00002-of-00003\.tfrecord"),
        (["a-00000-of-00003.tfrecord", "a-00001-of-00003.tfrecord"], "a-00002-of-00003"),
        (["b_*"], r"b_2_of_3\.tfrecord"),
        (["c*"], r"2 of the 4 .* are missing, such as c-00001-of-00004\.tfrecord"),
        (["a-{00000..00001}-of-00003.tfrecord"], None),
        (["a-0000[01]*"], None),
        (["a-00001-of-00003.tfrecord"], None),
        (["d-1-of-3.tfrecord", "d-2-of-3.tfrecord"], None),
        (["d*"], None),
    ],
)
def test_a_set_that_lacks_one_of_the_shards_that_its_names_count_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], message: str | None
) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    hashes = ("a" * 16, "0123456789abcdef")
    for name in (
        *("a-00000-of-00003", "a-00001-of-00003", "b_1_of_3", "b_3_of_3", "d-1-of-3", "d-2-of-3", "d-3-of-3"),
        *(f"c-0000{number}-of-00004-{digits}" for number, digits in zip((0, 3), hashes, strict=True)),
    ):
        write_tfrecord(Path(f"{name}.tfrecord"), [example(jpeg(0), 0)])
    if message is None:
        assert index(names, tmp_path / "into").index.rows
        return
    with pytest.raises(SourceError, match=message):
        index(names, tmp_path / "into")


def test_a_dataset_or_a_folder_that_another_process_writes_into_is_not_replaced(
    tmp_path: Path, indexed: Indexed
) -> None:
    (tmp_path / "into" / ".index-killed").mkdir(parents=True)
    with folder_lock(tmp_path / "into"), pytest.raises(LockedError):
        indexed([example(jpeg(0), 0)])
    index([tmp_path / "x"], tmp_path / "into")
    assert not (tmp_path / "into" / ".index-killed").exists(), "the files of a killed run are removed"
    with pytest.raises(DatasetError, match="a dataset already"):
        index([tmp_path / "x"], tmp_path / "into")


def test_a_failure_removes_the_folders_that_it_made(tmp_path: Path) -> None:
    empty = write_tfrecord(tmp_path / "x", [])
    (tmp_path / "existing").mkdir()
    for into in (tmp_path / "a" / "b", tmp_path / "existing"):
        with pytest.raises(SourceError, match="no image in these shards"):
            index([empty], into)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["existing", "x"]
