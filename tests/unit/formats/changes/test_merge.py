"""``stoker.merge``: a dataset of the samples of several, without copies of their shards."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.datasets import write_words

import stoker
from stoker.augment import Resize
from stoker.errors import ConfigError, DatasetError


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_shards_are_linked_and_classes_joined_by_name(
    write_objects: Callable[..., Path], tmp_path: Path, container: str
) -> None:
    first = write_objects("first", range(4), format=container)
    second = write_objects("second", range(4, 8), ("dog", "fox"), format=container)
    into = tmp_path / "all"
    assert stoker.merge([first, second], into).samples == 8
    dataset = stoker.open(into)
    assert dataset.classes == ("cat", "dog", "fox")
    assert dataset.column("number").tolist() == list(range(8))
    objects = dataset.annotations(range(8))
    names = [dataset.classes[label] for label in objects.labels]
    assert names == ["cat", "cat", "dog", "dog", "dog", "fox", "dog"]
    assert [file.stat().st_nlink for file in dataset.data_files] == [2] * 4
    shutil.rmtree(first)
    stoker.remove(second, where="number == 4")
    assert stoker.verify(into, decode=True).ok, "changes of the merged datasets do not reach it"
    assert stoker.open(into).mask(1)


@pytest.mark.parametrize("copy", [False, True])
def test_shards_on_another_file_system_are_referred_to_or_copied(
    write_objects: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copy: bool
) -> None:
    def no_link(*_: Any) -> None:
        raise OSError(errno.EXDEV, "another file system")

    first, second = write_objects("first", range(2)), write_objects("second", range(4))
    stoker.remove(first, keys=["k0"])
    monkeypatch.setattr(os, "link", no_link)
    stoker.merge([f"{first}@1", first, second], tmp_path / "all", copy=copy)
    dataset = stoker.open(tmp_path / "all")
    assert dataset.keys(range(7)) == ["k0", "k1", "k1", "k0", "k1", "k2", "k3"]
    assert [shard.path is None for shard in dataset.manifest.shards] == [copy] * 4
    assert stoker.verify(tmp_path / "all").ok
    shutil.rmtree(second)
    if not copy:
        with pytest.raises(DatasetError, match=r"shard-00002-of-00004\.tfrecord is missing"):
            stoker.open(tmp_path / "all")


def test_datasets_of_polygons_and_of_run_lengths_are_merged(tmp_path: Path, write_objects: Any) -> None:
    masks = write_objects("masks", range(3))
    shapes = [{"masks": [[[0, 0, 4, 0, 4, 4]]]}, {"masks": [np.eye(6, 8) > 0]}]
    for name, shape in zip(("polygons", "runs"), shapes, strict=True):
        with stoker.Writer(tmp_path / name, classes=["cat"]) as writer:
            image = np.zeros((6, 8, 3), np.uint8)
            writer.write(image, boxes=[[0, 0, 4, 4]], box_labels=["cat"], **shape)
    stoker.merge([tmp_path / "polygons", tmp_path / "runs"], tmp_path / "all")
    assert stoker.verify(tmp_path / "all", decode=True).ok
    assert stoker.open(tmp_path / "all").tasks >= {"instances"}
    with pytest.raises(ConfigError, match="differ in column mask_crc: none in"):
        stoker.merge([tmp_path / "polygons", masks], tmp_path / "other")


def test_datasets_of_different_form_are_refused(tmp_path: Path, make_dataset: Callable[..., Path]) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "b.txt").write_text("two\n")
    for name in "ab":
        tokenizer = write_words(tmp_path / f"{name}.json", [name])
        stoker.convert_text(tmp_path / f"{name}.txt", tmp_path / name, tokenizer=tokenizer)
    images = make_dataset()
    with pytest.raises(ConfigError, match="the datasets differ in kind: image in"):
        stoker.merge([images, tmp_path / "a"], tmp_path / "all")
    with pytest.raises(ConfigError, match="tokenizer_digest"):
        stoker.merge([tmp_path / "a", tmp_path / "b"], tmp_path / "all")
    with pytest.raises(ConfigError, match="two datasets or more"):
        stoker.merge([images], tmp_path / "all")
    with pytest.raises(DatasetError, match="the folder is not empty"):
        stoker.merge([images, images], tmp_path / "a")
    assert not (tmp_path / "all").exists()


def test_a_merged_dataset_keeps_the_restart_markers_of_some_images(
    photographs: list[Path], tmp_path: Path
) -> None:
    for name, restarts in (("plain", False), ("marked", True)):
        items = ({"image": file, "key": file.name} for file in photographs[:2])
        stoker.convert(items, tmp_path / name, storage=stoker.ImageStorage(restarts=restarts))
    stoker.merge([tmp_path / "plain", tmp_path / "marked"], tmp_path / "all")
    dataset = stoker.open(tmp_path / "all")
    assert (dataset.lists("jpeg_bands", range(4)).counts > 0).tolist() == [False, False, True, True]
    assert stoker.verify(tmp_path / "all", decode=True).ok
    with stoker.ImageLoader(dataset, batch_size=4, transforms=[Resize((64, 64))]) as loader:
        (images,) = next(iter(loader))
    assert np.array_equal(images[:2], images[2:])
