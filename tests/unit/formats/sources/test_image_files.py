"""Tests of the files of a source: their order and memory, and reading files that have changed."""

from __future__ import annotations

import errno
import os
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.datasets import jpeg, plan_images
from helpers.shards import example, write_samples, write_tfrecord
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import stoker
from stoker.errors import StorageError
from stoker.formats.conversion.options import ConvertOptions
from stoker.formats.index_cache import cached_indexes
from stoker.formats.sources import image_files
from stoker.formats.sources.class_folder import list_folder
from stoker.formats.sources.columns import EntryColumns
from stoker.formats.sources.image_files import (
    FileEntry,
    FileTable,
    SkippedError,
    find_files,
    find_images,
    looks_like_image,
    read_source_file,
    walk_folder,
)
from stoker.formats.sources.source import Source, SourceFolder

NAMES = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6))


@given(NAMES)
def test_files_are_sorted_as_python_sorts_their_names(names: list[str]) -> None:
    table = FileTable()
    for number, name in enumerate(names):
        table.add(name, number, -number)
    files, moved = table.sorted("root")
    order = np.arange(len(names))[moved]
    assert len(files) == len(names)
    assert files.keys.to_pylist() == list(files.names()) == sorted(names)
    assert order.tolist() == sorted(range(len(names)), key=lambda i: (names[i], i))
    assert files.sizes.tolist() == order.tolist()
    assert files.modified.tolist() == (-order).tolist()
    assert files.keys.buffers()[0] is None


def test_a_walk_finds_files_in_the_order_of_their_keys(tmp_path: Path) -> None:
    names = ["a.jpg", "a/b.jpg", "a/b/c.jpg", "a0/x.jpg", "ab.jpg", "b/0.jpg"]
    for name in reversed(names):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = walk_folder(str(tmp_path), follow_links=True)
    assert [one.key for one in found if isinstance(one, FileEntry)] == sorted(names)


def test_memory_of_a_plan_is_a_few_times_that_of_the_names(
    tmp_path: Path, make_jpeg: Callable[..., bytes]
) -> None:
    """A file takes 138 bytes, with 31 of its name; lists of Python objects would take 305."""
    image = make_jpeg(0)
    _peak(tmp_path / "first", 100, image)  # so that imports are not counted
    few, many = (_peak(tmp_path / str(number), number, image) for number in (2_000, 10_000))
    assert (many - few) / 8_000 < 220


def _peak(root: Path, files: int, image: bytes) -> int:
    """Return the most memory that the listing and the plan of some files take."""
    for number in range(files):
        path = root / f"class-{number % 10}" / f"photograph-{number:08d}.jpg"
        if number < 10:
            path.parent.mkdir(parents=True)
            path.write_bytes(image)
        else:
            os.link(root / f"class-{number % 10}" / f"photograph-{number % 10:08d}.jpg", path)
    tracemalloc.start()
    try:
        listing = list_folder(Source(root))
        plan_images(listing, ConvertOptions(shards=4, seed=1, val=Fraction(1, 10)))
        return tracemalloc.get_traced_memory()[1] + int(listing.keys.nbytes)
    finally:
        tracemalloc.stop()


def test_a_column_of_a_list_takes_little_more_memory_than_its_values() -> None:
    tracemalloc.start()
    try:
        columns = EntryColumns(cells=False)
        for i in range(4_000):
            columns.add({"path": "p", "label": f"class-{i % 10}", "x": i, "y": i / 7})
        # Three columns, of 7, 5 and 17 bytes a value; an entry as an object has 500.
        assert tracemalloc.get_traced_memory()[0] / 4_000 < 120
    finally:
        tracemalloc.stop()


@pytest.fixture
def root(tree: Callable[..., Path]) -> Path:
    """A folder with the image a.jpg."""
    return tree("a.jpg").resolve()


def refusal(root: Path, key: str, size: int) -> str:
    with pytest.raises(SkippedError) as caught:
        read_source_file(str(root), key, size)
    return str(caught.value.args[0])


def test_short_reads_are_continued(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = (root / "a.jpg").read_bytes()
    read = os.pread
    monkeypatch.setattr(os, "pread", lambda descriptor, size, at: read(descriptor, min(size, 7), at))
    assert read_source_file(str(root), "a.jpg", len(data)) == data


@pytest.mark.parametrize("size", [1 << 30, 1 << 40])
def test_a_huge_file_is_refused_before_it_is_read(
    root: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    with (root / "huge.jpg").open("wb") as file:
        file.truncate(size)  # sparse: it takes no space on the disk
    monkeypatch.setattr(image_files, "read_at", Mock(side_effect=AssertionError("it was read")))
    assert refusal(root, "huge.jpg", size) in ("not an image", "larger than 2 GiB")


def test_a_file_that_changed_is_refused_with_the_reason(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = (root / "a.jpg").stat().st_size
    os.mkfifo(root / "b.jpg")
    assert (
        refusal(root, "a.jpg", size - 1) == refusal(root, "a.jpg", size + 1) == "changed since it was listed"
    )
    assert refusal(root, "b.jpg", 100) == "not a regular file"
    assert not looks_like_image(str(root), "b.jpg")
    monkeypatch.setattr(os, "pread", lambda *_: b"")
    assert refusal(root, "a.jpg", size) == "changed since it was listed"


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENOENT, errno.EACCES])
def test_an_error_of_the_storage_stops_a_conversion_that_then_resumes(
    tmp_path: Path, photos: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    opened = os.open

    def fail(path: Any, *options: Any, **named: Any) -> int:
        if str(path).endswith("dog/7.png"):
            raise OSError(number, os.strerror(number), path)
        return opened(path, *options, **named)

    Image.open(photos / "dog/7.jpg").save(
        photos / "dog/7.png"
    )  # of a JPEG, loaders in place read the start natively
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", fail)
        for run in (stoker.open, lambda path: stoker.convert(path, tmp_path / "out", num_threads=1)):
            with pytest.raises(StorageError, match=os.strerror(number)) as caught:
                run(photos)
            assert str(caught.value.path).endswith("dog/7.png")
    assert not cached_indexes()
    assert stoker.convert(photos, tmp_path / "out").written == len(stoker.open(photos)) == 31


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.ENOMEM])
@pytest.mark.parametrize("suffix", ["parquet", "tfrecord", "tar"])
def test_an_error_of_the_storage_is_not_a_damaged_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, number: int
) -> None:
    (tmp_path / "in").mkdir()
    for name in "ab":
        file, images = tmp_path / "in" / f"{name}.{suffix}", [jpeg(i) for i in range(3)]
        if suffix == "parquet":
            pq.write_table(pa.table({"image": images, "label": [0, 1, 2]}), file)
        elif suffix == "tfrecord":
            write_tfrecord(file, [example(one, i) for i, one in enumerate(images)])
        else:
            write_samples(
                file, [{"__key__": f"{name}{i}", "jpg": one, "cls": i} for i, one in enumerate(images)]
            )
    opened = os.open

    def fail(path: Any, *options: Any, **named: Any) -> int:
        if str(path).endswith(f"b.{suffix}"):
            raise OSError(number, os.strerror(number), path)
        return opened(path, *options, **named)

    lenient = stoker.Selection(allow_loss=0.9)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", fail)
        with pytest.raises(StorageError, match=os.strerror(number)):
            stoker.convert(tmp_path / "in", tmp_path / "out", selection=lenient)
    assert stoker.convert(tmp_path / "in", tmp_path / "out", selection=lenient).written == 6


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE])
def test_an_error_of_the_storage_stops_a_listing(
    root: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    (root / "inner").mkdir()
    scandir, of_folder = os.scandir, str(root / "inner")
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", lambda path: fail() if str(path) == of_folder else scandir(path))
        with pytest.raises(StorageError, match=os.strerror(number)):
            find_images(str(root))
    monkeypatch.setattr(os, "stat", fail)
    with pytest.raises(StorageError, match=os.strerror(number)):
        find_files(str(root), ["a.jpg"])


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.EACCES])
def test_an_error_of_the_storage_is_not_a_missing_annotation(
    root: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    (root / "a.txt").write_text("0 .5 .5 .1 .1")
    folder = SourceFolder(root, follow_links=True)
    assert [type(found) for found in folder.read(["a.txt", "b.txt"])] == [bytes, FileNotFoundError]
    monkeypatch.setattr(os, "open", Mock(side_effect=OSError(number, os.strerror(number))))
    with pytest.raises(StorageError, match=os.strerror(number)):
        list(folder.read(["a.txt"]))


def test_a_conversion_without_memory_skips_no_image(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("stoker.formats.conversion.image_encoder.transcode", Mock(side_effect=MemoryError))
        with pytest.raises(MemoryError):
            stoker.convert(photos, tmp_path / "out", resize="squash=16x16", num_threads=1)
    assert stoker.convert(photos, tmp_path / "out", resize="squash=16x16").written == 30


def test_a_file_or_folder_that_became_a_link_is_read_unless_links_are_refused(
    root: Path, tmp_path: Path
) -> None:
    data = (root / "a.jpg").read_bytes()
    (root / "a.jpg").rename(tmp_path / "elsewhere.jpg")
    (root / "a.jpg").symlink_to(tmp_path / "elsewhere.jpg")
    (root / "b").symlink_to(tmp_path)
    for key in ("a.jpg", str(root / "a.jpg"), "b/elsewhere.jpg"):
        assert read_source_file(str(root), key, len(data)) == data
        with pytest.raises(SkippedError, match="link"):
            read_source_file(str(root), key, len(data), follow_links=False)
        assert not looks_like_image(str(root), key, follow_links=False)
