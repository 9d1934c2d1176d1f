"""TensorFlow reads our TFRecord, and we read what TensorFlow writes.

Each check runs TensorFlow in a process of its own: it is heavy, talks on stderr, and shares no
process with other frameworks.
"""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import stoker
from stoker.errors import CorruptRecordError
from stoker.formats.containers import tfrecord
from stoker.formats.external import external_index

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None,
    reason="TensorFlow is not installed: pip install tensorflow-cpu",
)

Make = Callable[..., Path]


def run(code: str, *arguments: object) -> str:
    """Run Python code with TensorFlow as ``tf``; what it prints."""
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        "import sys, tensorflow as tf\n" + code,
        *map(str, arguments),
    ]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


READ = """
import json
spec = {
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
records = tf.data.TFRecordDataset(sys.argv[1:])
for batch in records.batch(4).map(lambda some: tf.io.parse_example(some, spec)):
    for i in range(len(batch["image/width"])):
        values = {name: column[i].numpy() for name, column in batch.items()}
        image = tf.io.decode_jpeg(values["image/encoded"])
        plain = {name: v.hex() if isinstance(v, bytes) else int(v) for name, v in values.items()}
        print(json.dumps({**plain, "shape": image.shape.as_list()}))
"""


def test_tf_data_reads_our_shards(make_dataset: Make, make_jpeg: Callable[..., bytes]) -> None:
    dataset = stoker.open(make_dataset())
    rows = [json.loads(line) for line in run(READ, *dataset.data_files).splitlines()]
    assert len(rows) == 6
    for i, row in enumerate(rows):
        assert bytes.fromhex(row.pop("image/encoded")) == make_jpeg(i)
        texts = {
            name: bytes.fromhex(row.pop(f"image/{name}")).decode()
            for name in ("format", "filename", "class/text")
        }
        assert texts == {"format": "JPEG", "filename": f"k{i}", "class/text": dataset.classes[i % 3]}
        assert row.pop("shape") == [12, 16, 3]
        sizes = {"image/height": 12, "image/width": 16, "image/channels": 3, "image/orientation": 1}
        assert row == {"image/class/label": i % 3, **sizes}


WRITE = """
def bytes_feature(value):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))

encode = {"JPEG": tf.io.encode_jpeg, "PNG": tf.io.encode_png}
for shard in range(2):
    with tf.io.TFRecordWriter(f"{sys.argv[1]}/x-{shard:05d}-of-00002") as writer:
        for i in range(20):
            pixels = tf.random.stateless_uniform([10 + i, 30, 3], [shard, i], 0, 256, tf.int32)
            image = encode["JPEG" if i % 3 else "PNG"](tf.cast(pixels, tf.uint8)).numpy()
            features = {
                "image/encoded": bytes_feature(image),
                "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[i % 5])),
                "image/class/text": bytes_feature(f"class {i % 5}".encode()),
                "image/filename": bytes_feature(f"{shard}/{i}".encode()),
                "image/object/bbox/xmin": tf.train.Feature(float_list=tf.train.FloatList(value=[0.25] * i)),
                "image/nothing": tf.train.Feature(),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
"""


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two shards that TensorFlow wrote."""
    folder = tmp_path_factory.mktemp("theirs")
    run(WRITE, folder)
    return sorted(folder.iterdir())


def test_we_index_and_read_their_shards(theirs: list[Path], tmp_path: Path) -> None:
    external_index.index(theirs, tmp_path / "into")
    dataset = stoker.open(tmp_path / "into")
    assert len(dataset) == 40
    assert dataset.classes == tuple(f"class {i}" for i in range(5))
    assert dataset.labels.tolist() == [i % 5 for i in range(20)] * 2
    assert dataset.keys([0, 39]) == ["0/0", "1/19"]
    assert dataset.samples(range(40)).height.tolist() == [10 + i for i in range(20)] * 2
    report = stoker.verify(tmp_path / "into", decode=True)
    assert report.ok, report.problems


def test_their_checksums_are_checked(theirs: list[Path], tmp_path: Path) -> None:
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
            assert caught.value.record == record.position
