"""Tests of opening a dataset and reading from it, whole and damaged."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from helpers.datasets import WORDS, flip_bit, jpeg, rewrite_index

import stoker
from stoker.errors import CorruptRecordError, DatasetError, DecodeError, StaleIndexError
from stoker.formats.codecs.decode import decode_rgb
from stoker.formats.containers.container import writable
from stoker.formats.dataset import index as consistency
from stoker.formats.dataset.manifest import INDEX_NAME, MANIFEST_NAME

Make = Callable[..., Path]


@pytest.fixture
def folder(make_dataset: Make) -> Path:
    return make_dataset()


@pytest.mark.parametrize("container", writable())
def test_a_dataset_has_all_that_was_written(
    make_dataset: Make, make_jpeg: Callable[..., bytes], container: str
) -> None:
    dataset = stoker.open(make_dataset(container))
    assert len(dataset) == 6
    assert dataset.classes == ("cat", "dog", "eel")
    assert dataset.num_classes == 3
    assert dataset.labels.tolist() == [0, 1, 2, 0, 1, 2]
    assert dataset.keys(range(6)) == ["k0", "k1", "k2", "k3", "k4", "k5"]
    assert [dataset.read(i) for i in range(6)] == [make_jpeg(i) for i in range(6)]
    assert dataset.samples([5]).shard.tolist() == [1]
    assert "label" in dataset.columns
    assert [file.stat().st_size for file in dataset.data_files] == dataset.data_sizes
    assert all(file.is_absolute() for file in dataset.data_files)
    assert "6 samples" in repr(dataset)


def test_lists_out_of_order_in_an_index_are_refused(
    pack_images: Callable[..., Path], make_jpeg: Callable[..., bytes]
) -> None:
    tags = pa.LargeListArray.from_arrays(pa.array([0, 3, 1, 3], pa.int64()), pa.array([7, 8, 9]))
    dataset = stoker.open(pack_images([make_jpeg(i) for i in range(3)], tags=tags))
    assert dataset.lists("tags", [0]).values.tolist() == [7, 8, 9]
    with pytest.raises(StaleIndexError, match="damaged") as caught:
        dataset.lists("tags", [0, 1])
    assert "stoker verify" in str(caught.value)


def test_columns_of_objects_that_no_conversion_writes_are_refused(
    pack_images: Callable[..., Path], make_jpeg: Callable[..., bytes]
) -> None:
    """An attribute that is not a number, and polygons without their owners."""
    objects: dict[str, object] = {"object_boxes": [[1, 2, 3, 4]], "object_labels": [[0]]}
    hidden = {"object_hidden": pa.array([[True]], pa.large_list(pa.bool_()))}
    polygons = {"object_polygons": [[1, 2, 3, 4, 5, 6]], "object_polygon_sizes": [[3]]}
    for more, message in (
        (hidden, "'object_hidden' holds large_list<item: bool>, not lists of numbers"),
        (polygons, "object_polygons without object_polygon_owner"),
    ):
        folder = pack_images([make_jpeg(0)], **objects, **more)
        with pytest.raises(DatasetError, match=message):
            stoker.open(folder).annotations([0])
        assert message in str(stoker.verify(folder).problems[0])


def test_a_path_without_a_dataset_is_refused_with_the_next_step(folder: Path, tmp_path: Path) -> None:
    shard, unfinished = tmp_path / "train.tfrecord", tmp_path / "unfinished"
    shard.write_bytes(b"")
    (unfinished / ".stoker-convert").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    for path, message in (
        (tmp_path / "empty", "not a dataset.*\n.*stoker convert"),
        (tmp_path / "emty", "there is no emty in .*\n.*Did you mean .*/empty"),
        (shard, "not a dataset: a dataset is a folder.*\n.*\n?.*stoker index"),
        (folder.parent, f"not a dataset.*\n.*It contains datasets:.*{folder.name}"),
        (unfinished, "the same command again"),
        (unfinished / "train", "the same command again"),
    ):
        with pytest.raises(DatasetError, match=message):
            stoker.open(path)


@pytest.mark.parametrize("container", writable())
def test_a_shard_that_is_missing_or_has_another_size_is_refused(make_dataset: Make, container: str) -> None:
    folder = make_dataset(container)
    file = stoker.open(folder).data_files[1]
    size = file.stat().st_size
    for change, message in ((-1, "truncated"), (1, "longer than it was")):
        os.truncate(file, size + change)
        with pytest.raises(DatasetError, match=message):
            stoker.open(folder)
    file.unlink()
    with pytest.raises(DatasetError, match=r"shard-00001-of-00002.* is missing") as caught:
        stoker.open(folder)
    assert caught.value.shard
    assert caught.value.hint


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data + b"\0", "bytes where the manifest says"),
        (lambda data: data.replace(b"k0k1", b"k1k1", 1), "digest differs"),
        (lambda data: None, "missing"),
        (lambda data: b"x" * 9, r"bytes where the manifest says.*\n.*convert or index again"),
    ],
)
def test_an_index_that_the_manifest_does_not_describe_is_refused(
    folder: Path, change: Callable[[bytes], bytes | None], message: str
) -> None:
    index = folder / INDEX_NAME
    changed = change(index.read_bytes())
    index.unlink() if changed is None else index.write_bytes(changed)
    with pytest.raises(StaleIndexError, match=message):
        stoker.open(index.parent)


@pytest.mark.parametrize("name", [MANIFEST_NAME, INDEX_NAME, "shard-00001-of-00002.tfrecord"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_pipe_or_a_folder_instead_of_a_file_does_not_block(
    folder: Path, name: str, make: Callable[[Path], None]
) -> None:
    (folder / name).unlink()
    make(folder / name)
    with pytest.raises(DatasetError, match=r"missing|not a dataset"):
        stoker.open(folder)


@pytest.mark.parametrize("container", writable())
def test_a_flipped_bit_names_shard_record_and_key(make_dataset: Make, container: str) -> None:
    dataset = stoker.open(make_dataset(container))
    flip_bit(dataset, 4)
    for read in (dataset.read, dataset.__getitem__):
        with pytest.raises(CorruptRecordError, match="checksum") as caught:
            read(4)
    error = caught.value
    assert (error.shard, error.record, error.key) == (dataset.manifest.shards[1].name, 1, "k4")
    assert dataset.read(3)
    assert dataset.read(5)


def test_an_index_of_images_without_heights_is_refused(folder: Path) -> None:
    rewrite_index(folder, height=None)
    with pytest.raises(StaleIndexError, match="lacks the columns"):
        stoker.open(folder)


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize(("column", "value"), [("height", 0), ("width", -4)])
def test_an_image_without_pixels_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, small: bool, column: str, value: int
) -> None:
    sizes = stoker.open(folder).column(column).copy()
    sizes[3] = value
    rewrite_index(folder, **{column: sizes})
    if not small:  # an index of more than 64 MiB has a million samples, too many for a test
        monkeypatch.setattr(consistency, "_SMALL_INDEX", 0)
        assert len(stoker.open(folder).samples([2, 4])) == 2
    with pytest.raises(StaleIndexError, match=r"the image of row 3 has .* pixels in the index"):
        stoker.open(folder).samples([2, 3])
    assert "row 3" in stoker.verify(folder).problems[0].message


@pytest.fixture(scope="module")
def pets(tmp_path_factory: pytest.TempPathFactory) -> stoker.Dataset:
    into = tmp_path_factory.mktemp("pets") / "shards"
    with stoker.Writer(into, classes=["cat", "dog"]) as writer:
        for i in range(3):
            depth = np.full((2, i + 1), i, np.float32)
            writer.write(image=jpeg(i), label=i % 2, key=f"k{i}", score=i / 2, caption=f"no {i}", depth=depth)
    return stoker.open(into)


def test_a_sample_has_its_image_label_key_and_columns(pets: stoker.Dataset) -> None:
    for i, sample in enumerate(pets):
        assert np.array_equal(sample.image, decode_rgb(jpeg(i), 1, 12, 16))
        assert (sample.label, sample.key) == (i % 2, f"k{i}")
        assert sample.columns.keys() == {"score", "caption", "depth"}
        assert (sample.columns["score"], sample.columns["caption"]) == (i / 2, f"no {i}")
        assert np.array_equal(sample.columns["depth"], np.full((2, i + 1), i, np.float32))
    assert pets.select([2])[0].key == "k2"
    for position in (3, -1):
        with pytest.raises(IndexError, match="positions go from 0 to 2"):
            pets[position]


def test_a_dataset_has_the_attributes_of_torchvisions_datasets(pets: stoker.Dataset) -> None:
    assert pets.class_to_idx == {"cat": 0, "dog": 1}
    assert (pets.targets, pets.select([1]).targets) == ([0, 1, 0], [1])


@pytest.mark.parametrize(("classes", "labels"), [(["a", "b"], [[1, 0], []]), (None, [None, None])])
def test_a_sample_has_several_labels_or_none(
    tmp_path: Path, classes: list[str] | None, labels: list[list[int] | None]
) -> None:
    with stoker.Writer(tmp_path / "out", classes=classes) as writer:
        for i, label in enumerate(labels):
            writer.write(image=jpeg(i), label=label)
    assert [sample.label for sample in stoker.open(tmp_path / "out")] == labels


def test_a_sample_that_is_not_an_image_is_refused(make_dataset: Callable[..., Path], tmp_path: Path) -> None:
    dataset = stoker.open(make_dataset(payloads=[jpeg(0), jpeg(1)[:300]]))
    with pytest.raises(DecodeError, match="the image cannot be decoded") as caught:
        dataset[1]
    assert caught.value.key == "k1"
    with stoker.TextWriter(tmp_path / "text", tokenizer=WORDS) as writer:
        writer.write("a b")
    with pytest.raises(DatasetError, match="a sample of text has no image"):
        stoker.open(tmp_path / "text")[0]
