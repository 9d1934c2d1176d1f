"""TFRecord between Stoker and TensorFlow, in both directions."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker.errors import CorruptRecordError
from stoker.formats.containers import tfrecord
from stoker.formats.in_place import shards as external_index

tf = pytest.importorskip("tensorflow")

Make = Callable[..., Path]

FEATURES = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/format": tf.io.FixedLenFeature([], tf.string),
    "image/filename": tf.io.FixedLenFeature([], tf.string),
    "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    "image/class/text": tf.io.FixedLenFeature([], tf.string),
    "image/height": tf.io.FixedLenFeature([], tf.int64),
    "image/width": tf.io.FixedLenFeature([], tf.int64),
    "image/channels": tf.io.FixedLenFeature([], tf.int64),
    "image/orientation": tf.io.FixedLenFeature([], tf.int64, default_value=1),
}


def test_tf_data_reads_our_shards(make_dataset: Make, make_jpeg: Callable[..., bytes]) -> None:
    dataset = stoker.open(make_dataset())
    records = tf.data.TFRecordDataset([str(file) for file in dataset.data_files])
    batches = list(records.batch(4).map(lambda some: tf.io.parse_example(some, FEATURES)))
    columns = {name: [v for batch in batches for v in batch[name].numpy().tolist()] for name in FEATURES}
    assert columns == {
        "image/encoded": [make_jpeg(i) for i in range(6)],
        "image/format": [b"JPEG"] * 6,
        "image/filename": [b"k%d" % i for i in range(6)],
        "image/class/label": [i % 3 for i in range(6)],
        "image/class/text": [dataset.classes[i % 3].encode() for i in range(6)],
        "image/height": [12] * 6,
        "image/width": [16] * 6,
        "image/channels": [3] * 6,
        "image/orientation": [1] * 6,
    }
    for encoded in columns["image/encoded"]:
        assert tf.io.decode_jpeg(encoded).shape.as_list() == [12, 16, 3]


def bytes_feature(value: bytes) -> Any:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def example(shard: int, i: int) -> bytes:
    """Returns a record with an image, a label and features that Stoker does not know."""
    pixels = tf.random.stateless_uniform([10 + i, 30, 3], [shard, i], 0, 256, tf.int32)
    encode = tf.io.encode_jpeg if i % 3 else tf.io.encode_png
    features = {
        "image/encoded": bytes_feature(encode(tf.cast(pixels, tf.uint8)).numpy()),
        "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[i % 5])),
        "image/class/text": bytes_feature(f"class {i % 5}".encode()),
        "image/filename": bytes_feature(f"{shard}/{i}".encode()),
        "image/object/bbox/xmin": tf.train.Feature(float_list=tf.train.FloatList(value=[0.25] * i)),
        "image/nothing": tf.train.Feature(),
    }
    return bytes(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two shards that TensorFlow wrote."""
    folder = tmp_path_factory.mktemp("theirs")
    for shard in range(2):
        with tf.io.TFRecordWriter(f"{folder}/x-{shard:05d}-of-00002") as writer:
            for i in range(20):
                writer.write(example(shard, i))
    return sorted(folder.iterdir())


def test_tf_data_reads_arrays_beside_the_images(tmp_path: Path, make_jpeg: Callable[..., bytes]) -> None:
    depths = [np.random.default_rng(i).normal(size=(2 + i, 3)).astype(np.float32) for i in range(4)]
    with stoker.Writer(tmp_path / "out") as writer:
        for i, depth in enumerate(depths):
            writer.write(make_jpeg(i), label=i, depth=depth)
    features = {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "depth": tf.io.FixedLenFeature([], tf.string),
        "depth/shape": tf.io.FixedLenFeature([2], tf.int64),
    }
    records = tf.data.TFRecordDataset([str(file) for file in stoker.open(tmp_path / "out").data_files])
    for i, record in enumerate(records):
        found = tf.io.parse_single_example(record, features)
        assert found["image/encoded"].numpy() == make_jpeg(i)
        depth = tf.reshape(tf.io.decode_raw(found["depth"], tf.float32), found["depth/shape"])
        assert np.array_equal(depth.numpy(), depths[i])


def test_shards_by_tensorflow_are_indexed_and_read(theirs: list[Path], tmp_path: Path) -> None:
    external_index.index(theirs, tmp_path / "into")
    dataset = stoker.open(tmp_path / "into")
    assert len(dataset) == 40
    assert dataset.classes == tuple(f"class {i}" for i in range(5))
    assert dataset.labels.tolist() == [i % 5 for i in range(20)] * 2
    assert dataset.keys([0, 39]) == ["0/0", "1/19"]
    assert dataset.samples(range(40)).height.tolist() == [10 + i for i in range(20)] * 2
    report = stoker.verify(tmp_path / "into", decode=True)
    assert report.ok, report.problems


def test_raw_pixels_float_labels_and_objects_by_tensorflow_are_indexed(tmp_path: Path) -> None:
    pixels = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    features = {
        "img_raw": bytes_feature(tf.io.serialize_tensor(pixels).numpy()[-60:]),
        "score": tf.train.Feature(float_list=tf.train.FloatList(value=[0.5])),
        "image/object/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[1])),
    }
    for side, share in (("ymin", 0.25), ("xmin", 0.2), ("ymax", 1.0), ("xmax", 0.6)):
        shares = tf.train.Feature(float_list=tf.train.FloatList(value=[share]))
        features[f"image/object/bbox/{side}"] = shares
    with tf.io.TFRecordWriter(f"{tmp_path}/x") as writer:
        writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    names = {"encoded": "img_raw", "raw": True, "shape": (4, 5, 3), "label": "score", "label_type": "float"}
    external_index.index([tmp_path / "x"], tmp_path / "into", names=names)
    dataset = stoker.open(tmp_path / "into")
    assert dataset.read(0) == pixels.tobytes()
    assert dataset.labels.tolist() == [0.5]
    np.testing.assert_allclose(dataset.annotations([0]).boxes, [[1, 1, 3, 4]], rtol=1e-6)


def test_the_checksums_of_shards_by_tensorflow_are_checked(theirs: list[Path], tmp_path: Path) -> None:
    data = bytearray(theirs[0].read_bytes())
    records = list(tfrecord.scan(theirs[0]))
    assert len(records) == 20
    for record in records[::7]:
        for at in (
            record.offset - 12,
            record.offset - 4,
            record.offset + record.length // 2,
            record.offset + record.length,
        ):
            data[at] ^= 1
            (tmp_path / "damaged").write_bytes(data)
            data[at] ^= 1
            with pytest.raises(CorruptRecordError, match="checksum") as caught:
                external_index.index([tmp_path / "damaged"], tmp_path / "into")
            assert caught.value.record == record.number
