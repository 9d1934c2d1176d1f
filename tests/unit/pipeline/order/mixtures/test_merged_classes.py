"""Mixtures of datasets whose classes are merged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from helpers.datasets import list_column

import stoker
from stoker.augment import Resize
from stoker.errors import CheckpointError, ConfigError, DatasetError
from stoker.formats.dataset.dataset import Dataset
from stoker.pipeline.order.mixture import mix


def named(folder: Path, *classes: str) -> Dataset:
    """The dataset with other names of classes."""
    dataset = stoker.open(folder)
    object.__setattr__(dataset.manifest, "classes", classes)
    return dataset


def test_classes_are_merged_by_name(load: Callable[..., stoker.ImageLoader], folders: list[Path]) -> None:
    renamed = named(folders[1], "fox", "cat", "owl"), named(folders[2], "owl", "fox", "cat")
    mixture = mix([(folders[0], 1), *((dataset, 1) for dataset in renamed)])
    assert mixture.classes == ("cat", "dog", "eel", "fox", "owl")
    assert mixture.num_classes == 5
    names = [mixture.classes[label] for label in mixture.column("label")]
    assert names[:20] == [("cat", "dog", "eel")[i % 3] for i in range(20)]
    assert names[20:26] == ["fox", "cat", "owl"] * 2
    assert names[26:] == ["owl", "fox", "cat", "owl"]
    assert mixture.values("label", [27, 0, 20]).tolist() == [3, 0, 3]
    for batch in load(mixture, shuffle=True):
        assert batch.label.tolist() == mixture.values("label", batch.row).tolist()
    assert mix([(folders[0], 1), (folders[2], 1)]).values("label", [20]).tolist() == [0]


def test_merged_classes_are_part_of_a_state(
    load: Callable[..., stoker.ImageLoader], folders: list[Path]
) -> None:
    pair = [(folders[0], 1), (named(folders[1], "fox", "cat", "owl"), 1)]
    state = load(mix(pair)).state_dict()
    load(mix(pair)).load_state_dict(state)
    with pytest.raises(CheckpointError, match="dataset was"):
        load(mix([(folders[0], 1), (named(folders[1], "fox", "owl", "cat"), 1)])).load_state_dict(state)


def test_classes_that_cannot_be_merged_are_refused(folders: list[Path]) -> None:
    for classes, message in (((), "one has no names of classes"), (("a", "b", "a"), "the name 'a' for two")):
        with pytest.raises(ConfigError, match=message) as caught:
            mix([(folders[0], 1), (named(folders[1], *classes), 1)])
        assert caught.value.path == str(folders[1])
    mixture = mix([(folders[0], 1), (named(folders[1], "fox", "cat"), 1)])
    with pytest.raises(DatasetError, match="labels go from 0 to 2, but the dataset has 2 classes") as caught:
        mixture.column("label")
    assert caught.value.path == str(folders[1])
    with pytest.raises(DatasetError, match="labels go from -1 to 1"):
        mixture.merged_classes.labels(1, np.array([1, -1]), mixture.datasets[1])


def test_images_and_text_are_not_mixed(tmp_path: Path, folders: list[Path]) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    stoker.convert_text(tmp_path / "a.txt", tmp_path / "text", tokenizer="bytes")
    with pytest.raises(ConfigError, match="hold image and text"):
        mix([(folders[0], 1), (tmp_path / "text", 1)])
    with pytest.raises(ConfigError, match="ImageLoader reads image, but this dataset holds text"):
        stoker.ImageLoader(mix([(tmp_path / "text", 1)]), batch_size=1)


def test_labels_of_objects_and_several_labels_of_a_sample_are_merged(
    pack_images: Callable[..., Path], make_jpeg: Callable[..., bytes]
) -> None:
    several = {
        "label": list_column([[0, 1], [], [2]], pa.int64()),
        "object_boxes": list_column([[0, 0, 4, 4] * 2, [], [0, 0, 4, 4]], pa.float32()),
        "object_labels": list_column([[2, 0], [], [1]], pa.int64()),
    }
    payloads = [make_jpeg(i) for i in range(3)]
    first, other = (pack_images(payloads, **several) for _ in range(2))
    second = named(other, "eel", "fox", "dog")
    mixture = mix([(first, 1), (second, 1)])
    assert mixture.classes == ("cat", "dog", "eel", "fox")
    assert mixture.annotations([3, 0, 5]).labels.tolist() == [1, 2, 2, 0, 3]
    assert mixture.lists("object_labels", [5, 0]).values.tolist() == [3, 2, 0]
    with stoker.ImageLoader(mixture, batch_size=6, transforms=[Resize((4, 4))], columns=("label",)) as loader:
        labels = {tuple(np.flatnonzero(row)) for batch in loader for row in batch.label}
    assert labels == {(0, 1), (), (2,), (2, 3), (1,)}
