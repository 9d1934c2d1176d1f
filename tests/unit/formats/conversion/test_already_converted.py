"""A second call of a conversion that has ended."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.datasets import read_files
from helpers.images import encode
from helpers.options import convert, convert_text
from helpers.publications import check_in_folder
from PIL import Image

import stoker
from stoker.errors import DatasetError

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_the_same_call_changes_no_file_and_returns_the_same_counts(
    photos: Path, tmp_path: Path, container: Any
) -> None:
    (photos / "cat" / "notes.txt").write_text("no image")
    (photos / "dog" / "0.jpg").write_bytes(b"\xff\xd8\xff")
    options = {"format": container, "val": "20%", "seed": 3, "shards": 2}
    first = convert(photos, tmp_path / "out", **options)
    before = read_files(tmp_path / "out")
    second = convert(photos, tmp_path / "out", num_threads=3, **options)
    assert (first.already, second.already) == (False, True)
    for name in ("written", "skipped", "bytes", "shards", "datasets"):
        assert getattr(second, name) == getattr(first, name)
    assert read_files(tmp_path / "out") == before


def touch(photos: Path, out: Path) -> None:
    later = (out / "dataset.json").stat().st_mtime_ns + 1
    os.utime(photos / "cat" / "0.jpg", ns=(later, later))


def resize_with_an_old_date(photos: Path, out: Path) -> None:
    (photos / "cat" / "0.jpg").write_bytes((photos / "cat" / "0.jpg").read_bytes() + b"more")
    os.utime(photos / "cat" / "0.jpg", (0, 0))


CHANGES: dict[str, Callable[[Path, Path], object]] = {
    "touch": touch,
    "resize with an old date": resize_with_an_old_date,
    "add": lambda photos, out: shutil.copy2(photos / "cat" / "0.jpg", photos / "cat" / "10.jpg"),
    "add no image": lambda photos, out: (photos / "cat" / "notes.txt").touch(),
    "remove": lambda photos, out: (photos / "eel" / "9.jpg").unlink(),
    "rename": lambda photos, out: (photos / "eel").rename(photos / "fox"),
    "lose a shard": lambda photos, out: stoker.open(out).data_files[0].unlink(),
    "cut a shard": lambda photos, out: os.truncate(stoker.open(out).data_files[0], 100),
    "lose the index": lambda photos, out: (out / "index.arrow").unlink(),
    "damage the list of skips": lambda photos, out: (out / "skipped.jsonl").write_text("[1]\n"),
}
OPTIONS: list[dict[str, Any]] = [{"seed": 1}, {"shards": 2}, {"classes": ["dog", "cat", "eel"]}]


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_source_or_dataset_is_not_already_converted(
    photos: Path, tmp_path: Path, change: str
) -> None:
    stoker.convert(photos, tmp_path / "out")
    CHANGES[change](photos, tmp_path / "out")
    with pytest.raises(DatasetError, match="already"):
        stoker.convert(photos, tmp_path / "out")


@pytest.mark.parametrize("option", OPTIONS, ids=str)
def test_a_dataset_of_other_options_is_not_already_converted(
    photos: Path, tmp_path: Path, option: dict[str, Any]
) -> None:
    stoker.convert(photos, tmp_path / "out")
    with pytest.raises(DatasetError, match="already"):
        convert(photos, tmp_path / "out", **option)
    assert not stoker.convert(photos, tmp_path / "out", overwrite=True).already


def test_a_list_with_another_label_column_or_class_is_not_already_converted(
    photos: Path, tmp_path: Path
) -> None:
    file = tmp_path / "list.csv"
    for text, classes in (
        ("path,label,score\nphotos/cat/0.jpg,3,0.5\n", None),
        ("path,label,score\nphotos/cat/0.jpg,4,0.5\n", None),
        ("path,label,score\nphotos/cat/0.jpg,4,0.6\n", None),
        ("path,label\nphotos/cat/0.jpg,4\n", None),
        ("path,label\nphotos/cat/0.jpg,0\n", ["cat"]),
        ("path,label\nphotos/cat/0.jpg,0\n", ["tom"]),
    ):
        file.write_text(text)
        os.utime(file, (0, 0))
        if (tmp_path / "out").exists():
            with pytest.raises(DatasetError, match="already"):
                stoker.convert(file, tmp_path / "out", classes=classes)
        assert not stoker.convert(file, tmp_path / "out", overwrite=True, classes=classes).already
        assert stoker.convert(file, tmp_path / "out", classes=classes).already


def test_text_without_a_column_is_not_already_converted(tmp_path: Path) -> None:
    (tmp_path / "lines.jsonl").write_text('{"text": "one", "score": 1}\n')
    convert_text(tmp_path / "lines.jsonl", tmp_path / "out", columns=("score",), tokenizer="bytes")
    with pytest.raises(DatasetError, match="already"):
        convert_text(tmp_path / "lines.jsonl", tmp_path / "out", tokenizer="bytes")


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
@pytest.mark.parametrize("replaced", [False, True])
def test_another_conversion_leaves_nothing_of_one_interrupted_while_it_published(
    photos: Path, tmp_path: Path, container: str, replaced: bool
) -> None:
    """A few calls are interrupted; in tests/stress every one is."""
    assert check_in_folder(photos, tmp_path, container, replaced=replaced, every=False) > 10


def test_a_source_with_a_changed_mask_is_not_already_converted(photos: Path, tmp_path: Path) -> None:
    masks = tmp_path / "masks"
    masks.mkdir()
    for i in range(10):
        (masks / f"{i}.png").write_bytes(encode(Image.new("L", (32, 24)), "PNG"))
    convert(photos / "cat", tmp_path / "a", masks=masks)
    assert convert(photos / "cat", tmp_path / "a", masks=masks).already
    later = (tmp_path / "a" / "dataset.json").stat().st_mtime_ns + 1  # the clock of files is coarse
    os.utime(masks / "3.png", ns=(later, later))
    with pytest.raises(DatasetError, match="already"):
        convert(photos / "cat", tmp_path / "a", masks=masks)


def test_a_source_with_objects_is_not_already_converted_as_they_cannot_be_compared(
    photos: Path, tmp_path: Path
) -> None:
    shutil.copytree(photos / "cat", tmp_path / "yolo" / "images")
    (tmp_path / "yolo" / "labels").mkdir()
    for i in range(10):
        (tmp_path / "yolo" / "labels" / f"{i}.txt").write_text("0 0.5 0.5 0.2 0.2\n")
    stoker.convert(tmp_path / "yolo", tmp_path / "out")
    with pytest.raises(DatasetError, match="already"):
        stoker.convert(tmp_path / "yolo", tmp_path / "out")
