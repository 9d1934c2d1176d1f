"""DALI reads our shards, in processes of its own, as some of its failures are signals."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.data.dali_batches import needs_dali
from helpers.processes.programs import printed_json

import stoker
from stoker.formats.external import external_index

pytestmark = needs_dali

Make = Callable[..., Path]

PREAMBLE = """
import json, sys
import numpy as np
from nvidia.dali import fn, pipeline_def, tfrecord

def rows(pipeline):
    pipeline.build()
    for _ in range(3):
        for columns in zip(*(output.as_cpu() for output in pipeline.run())):
            print(json.dumps([np.asarray(column).tolist() for column in columns]))
"""

TFRECORD = """
arguments = json.loads(sys.argv[1])

@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def pipeline():
    features = fn.readers.tfrecord(path=arguments["paths"], index_path=arguments["indexes"], features={
        "image/encoded": tfrecord.FixedLenFeature((), tfrecord.string, ""),
        "image/class/label": tfrecord.FixedLenFeature([1], tfrecord.int64, -1),
        "image/height": tfrecord.FixedLenFeature([1], tfrecord.int64, -1),
    })
    image = fn.decoders.image(features["image/encoded"])
    return features["image/encoded"], features["image/class/label"], features["image/height"], image.shape()

rows(pipeline())
"""

CAFFE = """
arguments = json.loads(sys.argv[1])

@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def pipeline():
    encoded, label = fn.readers.caffe(path=arguments["paths"])
    return encoded, label, fn.decoders.image(encoded).shape()

rows(pipeline())
"""


def run(code: str, **arguments: list[str]) -> list[list]:
    return printed_json(PREAMBLE + code, json.dumps(arguments))


def test_readers_tfrecord_reads_our_shards_by_our_index(
    make_dataset: Make, make_jpeg: Callable[..., bytes]
) -> None:
    files = stoker.open(make_dataset()).data_files
    indexes = [os.fspath(file.with_suffix(".idx")) for file in files]
    rows = run(TFRECORD, paths=list(map(os.fspath, files)), indexes=indexes)
    assert [bytes(row[0]) for row in rows] == [make_jpeg(i) for i in range(6)]
    assert [row[1:] for row in rows] == [[[i % 3], [12], [12, 16, 3]] for i in range(6)]


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_readers_read_shards_with_arrays(
    make_jpeg: Callable[..., bytes], tmp_path: Path, container: str
) -> None:
    with stoker.Writer(tmp_path / "out", format=container) as writer:
        for i in range(6):
            writer.write(make_jpeg(i), label=i, depth=[i / 3] * i)
    (file,) = stoker.open(tmp_path / "out").data_files
    if container == "lmdb":
        rows = run(CAFFE, paths=[os.fspath(file.parent)])
    else:
        rows = run(TFRECORD, paths=[os.fspath(file)], indexes=[os.fspath(file.with_suffix(".idx"))])
    assert [bytes(row[0]) for row in rows] == [make_jpeg(i) for i in range(6)]
    assert [row[1] for row in rows] == [[i] for i in range(6)]


def test_readers_tfrecord_reads_external_shards_by_our_index(
    make_dataset: Make, make_jpeg: Callable[..., bytes], tmp_path: Path
) -> None:
    files = stoker.open(make_dataset()).data_files
    external_index.index(files, tmp_path / "into")
    indexes = [os.fspath(tmp_path / "into" / f"{file.name}.idx") for file in files]
    rows = run(TFRECORD, paths=list(map(os.fspath, files)), indexes=indexes)
    assert [bytes(row[0]) for row in rows] == [make_jpeg(i) for i in range(6)]


def test_readers_caffe_reads_our_shards(make_dataset: Make, make_jpeg: Callable[..., bytes]) -> None:
    folders = [file.parent for file in stoker.open(make_dataset("lmdb")).data_files]
    before = [(folder / "data.mdb").read_bytes() for folder in folders]
    rows = run(CAFFE, paths=list(map(os.fspath, folders)))
    assert [bytes(row[0]) for row in rows] == [make_jpeg(i) for i in range(6)]
    assert [row[1:] for row in rows] == [[[i % 3], [12, 16, 3]] for i in range(6)]
    assert [(folder / "data.mdb").read_bytes() for folder in folders] == before
