"""DALI reads our shards."""

from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.dali import needs_dali
from helpers.dali_readers import read_caffe, read_tfrecord

import stoker
from stoker.formats.in_place import shards as external_index

pytestmark = needs_dali

Make = Callable[..., Path]


def test_readers_tfrecord_reads_our_shards_by_our_index(
    make_dataset: Make, make_jpeg: Callable[..., bytes]
) -> None:
    files = stoker.open(make_dataset()).data_files
    indexes = [file.with_suffix(".idx") for file in files]
    rows = read_tfrecord(files, indexes, samples=6)
    assert [bytes(row[0]) for row in rows] == [make_jpeg(i) for i in range(6)]
    assert [row[1:] for row in rows] == [[[i % 3], [12], [12, 16, 3]] for i in range(6)]


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_readers_read_shards_with_arrays(
    make_jpeg: Callable[..., bytes], tmp_path: Path, container: str
) -> None:
    with stoker.Writer(tmp_path / "out", container=container) as writer:
        for i in range(6):
            writer.write(make_jpeg(i), label=i, depth=[i / 3] * i)
    (file,) = stoker.open(tmp_path / "out").data_files
    if container == "lmdb":
        rows = read_caffe([file.parent], samples=6)
    else:
        rows = read_tfrecord([file], [file.with_suffix(".idx")], samples=6)
    assert [bytes(row[0]) for row in rows] == [make_jpeg(i) for i in range(6)]
    assert [row[1] for row in rows] == [[i] for i in range(6)]


def test_readers_tfrecord_reads_external_shards_by_our_index(
    make_dataset: Make, make_jpeg: Callable[..., bytes], tmp_path: Path
) -> None:
    files = stoker.open(make_dataset()).data_files
    external_index.index(files, tmp_path / "into")
    indexes = [tmp_path / "into" / f"{file.name}.idx" for file in files]
    rows = read_tfrecord(files, indexes, samples=6)
    assert [bytes(row[0]) for row in rows] == [make_jpeg(i) for i in range(6)]


def test_readers_caffe_reads_our_shards(make_dataset: Make, make_jpeg: Callable[..., bytes]) -> None:
    folders = [file.parent for file in stoker.open(make_dataset("lmdb")).data_files]
    before = [(folder / "data.mdb").read_bytes() for folder in folders]
    rows = read_caffe(folders, samples=6)
    assert [bytes(row[0]) for row in rows] == [make_jpeg(i) for i in range(6)]
    assert [row[1:] for row in rows] == [[[i % 3], [12, 16, 3]] for i in range(6)]
    assert [(folder / "data.mdb").read_bytes() for folder in folders] == before
