"""``stoker.Writer``: samples and options that it refuses, interrupted writing, locks, and targets at URLs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data.file_trees import read_files
from helpers.data.pictures import noise
from helpers.processes.disk_calls import full_disk

import stoker
from stoker.errors import ConfigError, DatasetError, DecodeError, LockedError, SourceError, WriteError

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")
ARRAY = np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({"label": "cat"}, {"label": "eel"}, "label is 'eel', which is not among the classes"),
        ({"label": 0}, {"label": 2}, "label is 2, and there are 2 classes"),
        ({"label": 0}, {}, "the sample lacks 'label'"),
        ({"label": 0}, {"label": [0]}, r"label is \[0\], and the first sample has one label"),
        (
            {"score": 1.5},
            {"score": "x"},
            "column 'score' holds a text, and in the first sample a number of float64",
        ),
        ({"score": 1}, {"score": 0.5}, "column 'score' holds 0.5, a number of float64"),
        ({"score": np.uint8(1)}, {"score": 300}, "column 'score' holds 300"),
        ({"score": 1.5}, {"score": None}, "column 'score' holds None"),
        ({"score": 1.5}, {"other": 1.5}, "the sample lacks 'score'"),
        ({}, {"score": 1.5}, "the sample has 'score'"),
        ({"depth": ARRAY}, {"depth": ARRAY[0]}, "an array of float32 with 1 side, and in the first sample"),
        ({"depth": ARRAY}, {"depth": ARRAY.astype(float)}, "an array of float64 with 2 sides"),
        ({"depth": ARRAY}, {"depth": [[1], [2, 3]]}, "column 'depth' holds no value that can be stored"),
        ({"depth": ARRAY}, {"depth": ["a"]}, "column 'depth' holds a value of the type list of <U1"),
        (
            {"boxes": [[0, 0, 1, 1]], "box_labels": [0]},
            {"boxes": [[0, 0, 1, 1]], "box_labels": []},
            "box_labels has 0 labels for 1 boxes",
        ),
        (
            {"boxes": [[0, 0, 1, 1]], "box_labels": [0]},
            {"boxes": [[3, 0, 1, 1]], "box_labels": [0]},
            "box 0 has no area",
        ),
    ],
)
def test_a_sample_that_does_not_fit_is_refused_by_key_and_column_and_the_writer_goes_on(
    tmp_path: Path, first: dict[str, Any], second: dict[str, Any], message: str
) -> None:
    with stoker.Writer(tmp_path / "out", classes=["cat", "dog"]) as writer:
        writer.write(noise(0), **first)
        with pytest.raises(ConfigError, match=message) as caught:
            writer.write(noise(1), key="the second", **second)
        assert caught.value.key == "the second"
        writer.write(noise(2), **first)
    assert len(stoker.open(tmp_path / "out")) == 2


@pytest.mark.parametrize("name", ["_key", "offset", "row", "mask_x", "object_x", "class", "depth_shape"])
def test_a_column_with_a_name_of_the_index_is_refused(tmp_path: Path, name: str) -> None:
    writer = stoker.Writer(tmp_path / "out")
    with pytest.raises(
        ConfigError, match=f"column '{name}' is (a name that the index|no name that a column)"
    ):
        writer.write(noise(0), **{"depth": ARRAY, name: 1})
    with pytest.raises(SourceError, match="no sample was written"):
        writer.close()
    assert list((tmp_path / "out").iterdir()) == []


def test_the_error_for_a_broken_image_names_its_key_and_all_others_are_kept(
    tmp_path: Path, make_jpeg: Callable[..., bytes]
) -> None:
    writer = stoker.Writer(tmp_path / "out", num_threads=1)
    writer.write(make_jpeg(0))
    writer.write(make_jpeg(1)[:-30], key="broken")

    def write(i: int) -> str | None:
        try:
            writer.write(make_jpeg(i))
        except DecodeError as error:
            return error.key
        return None

    assert {write(i) for i in range(2, 500)} == {None, "broken"}
    assert writer.close().written == 499
    assert "broken" not in stoker.open(tmp_path / "out").keys(range(499))


def test_a_writer_that_is_not_strict_counts_broken_images(
    tmp_path: Path, make_jpeg: Callable[..., bytes]
) -> None:
    with stoker.Writer(tmp_path / "out", strict=False) as writer:
        writer.write(make_jpeg(0))
        writer.write(b"no image", key="broken")
        summary = writer.close()
    assert (summary.written, summary.skipped) == (1, {"broken image": 1})
    assert stoker.open(tmp_path / "out").manifest.skipped == {"broken image": 1}


def test_there_is_no_dataset_before_the_end_or_after_an_error(tmp_path: Path) -> None:
    target = tmp_path / "out"
    writer = stoker.Writer(target, shard_records=2)
    for i in range(100):
        writer.write(noise(i))
    with pytest.raises(DatasetError):
        stoker.open(target)
    with pytest.raises(ZeroDivisionError), writer:
        1 / 0  # noqa: B018 - any error
    assert list(target.iterdir()) == []
    with pytest.raises(ConfigError, match="the writer is closed"):
        writer.write(noise(0))


def test_one_writer_or_conversion_at_a_time_writes_into_a_folder(photos: Path, tmp_path: Path) -> None:
    with stoker.Writer(tmp_path / "a") as first, stoker.Writer(tmp_path / "b") as second:
        first.write(noise(0))
        second.write(noise(1))
        with pytest.raises(LockedError):
            stoker.Writer(tmp_path / "a")
        with pytest.raises(LockedError):
            stoker.convert(photos, tmp_path / "a")
    assert len(stoker.open(tmp_path / "a")) == len(stoker.open(tmp_path / "b")) == 1


def test_a_dataset_is_replaced_only_with_overwrite(tmp_path: Path) -> None:
    with stoker.Writer(tmp_path / "a") as writer:
        writer.write(noise(0))
    with pytest.raises(DatasetError, match="there is a dataset in the folder already"):
        stoker.Writer(tmp_path / "a")
    with stoker.Writer(tmp_path / "a", overwrite=True) as writer:
        for i in range(3):
            writer.write(noise(i))
    assert len(stoker.open(tmp_path / "a")) == 3


def test_a_dataset_stays_until_the_writer_that_replaces_it_is_closed(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with stoker.Writer(target) as writer:
        writer.write(noise(0))
    before = read_files(target)
    (target / ".stoker-convert").mkdir()  # as a killed writer leaves it
    (target / ".stoker-convert" / "plan.json").write_text('{"fingerprint": "writer-1"}')
    writer = stoker.Writer(target, overwrite=True)
    writer.write(noise(1))
    assert stoker.verify(target).ok
    writer.abandon()
    assert read_files(target) == before


def test_a_writer_without_references_releases_its_folder(tmp_path: Path) -> None:
    stoker.Writer(tmp_path / "out").write(noise(0))
    with stoker.Writer(tmp_path / "out") as writer:
        writer.write(noise(0))
    assert len(stoker.open(tmp_path / "out")) == 1


def test_threads_can_share_a_writer(tmp_path: Path) -> None:
    with stoker.Writer(tmp_path / "out", shard_records=7) as writer:
        threads = [
            threading.Thread(target=lambda i=i: [writer.write(noise(0), thread=i) for _ in range(20)])
            for i in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    dataset = stoker.open(tmp_path / "out")
    assert np.bincount(dataset.column("thread")).tolist() == [20] * 4
    assert dataset.keys(range(80)) == [f"{i:08d}" for i in range(80)]


def test_a_full_disk_ends_the_writer_and_leaves_no_file(tmp_path: Path) -> None:
    writer = stoker.Writer(tmp_path / "out", shard_records=2)
    for i in range(3):
        writer.write(noise(i))
    with full_disk(), pytest.raises(WriteError, match="the disk is full"):
        writer.close()
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_a_dataset_at_a_url_has_the_bytes_of_one_in_a_folder(
    tmp_path: Path, memory: Any, container: Any
) -> None:
    memory.mkdir("/bucket")
    for target in (tmp_path / "out", "memory://bucket/out"):
        with stoker.Writer(target, shard_records=2, format=container) as writer:
            for i in range(5):
                writer.write(noise(i), label=("cat", "dog")[i % 2], depth=np.full((2, i), i))
    memory.get("/bucket/out", str(tmp_path / "copy"), recursive=True)
    assert read_files(tmp_path / "copy") == read_files(tmp_path / "out")


def test_there_is_no_dataset_at_a_url_before_the_end_or_after_abandoning(memory: Any) -> None:
    memory.mkdir("/bucket")
    writer = stoker.Writer("memory://bucket/out", shard_records=1)
    for i in range(4):
        writer.write(noise(i))
    assert not memory.exists("/bucket/out/dataset.json")
    writer.abandon()
    assert memory.find("/bucket/out") == []


def test_a_writer_replaces_the_remains_of_a_killed_one_at_a_url(tmp_path: Path, memory: Any) -> None:
    memory.mkdir("/bucket")
    memory.pipe("/bucket/out/.stoker-convert/plan.json", b'{"fingerprint": "writer-of-a-killed-process"}')
    with stoker.Writer("memory://bucket/out") as writer:
        writer.write(noise(0))
    assert len(stoker.open("memory://bucket/out", cache=tmp_path / "cache")) == 1


def test_a_dataset_at_a_url_is_replaced_only_with_overwrite(tmp_path: Path, memory: Any) -> None:
    memory.mkdir("/bucket")
    with stoker.Writer("memory://bucket/out") as writer:
        writer.write(noise(0))
    with pytest.raises(DatasetError, match="there is a dataset already"):
        stoker.Writer("memory://bucket/out")
    with stoker.Writer("memory://bucket/out", overwrite=True) as writer:
        writer.write(noise(0))
        writer.write(noise(1))
    assert len(stoker.open("memory://bucket/out", cache=tmp_path / "cache")) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"box_format": "LTRB"}, "box_format"),
        ({"classes": "cat"}, "classes must be a sequence"),
        ({"encoding": "gif"}, "encoding"),
        ({"shard_records": 3, "shard_size": "1MB"}, "shards are made by one of"),
        ({"target": "s3://bucket/x", "append": True}, "the target is a URL"),
    ],
)
def test_invalid_options_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        stoker.Writer(**{"target": tmp_path / "out", **options})
