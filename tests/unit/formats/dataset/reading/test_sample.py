"""Tests of single samples, ``dataset[i]``, and of the names that torchvision's datasets have."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers.data.datasets import jpeg

import stoker
from stoker.augment import CenterCrop
from stoker.errors import ConfigError, CorruptRecordError, DatasetError, DecodeError
from stoker.formats.codecs.decode import decode_rgb


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


def test_the_names_of_torchvision(pets: stoker.Dataset) -> None:
    assert pets.class_to_idx == {"cat": 0, "dog": 1}
    assert (pets.targets, pets.select([1]).targets) == ([0, 1, 0], [1])


def test_several_labels_and_none(tmp_path: Path) -> None:
    several: list[list[int] | None] = [[1, 0], []]
    for name, labels in (("several", several), ("none", [None, None])):
        with stoker.Writer(tmp_path / name, classes=["a", "b"] if name == "several" else None) as writer:
            for i, label in enumerate(labels):
                writer.write(image=jpeg(i), label=label)
        assert [sample.label for sample in stoker.open(tmp_path / name)] == labels


def test_a_sample_that_is_damaged_is_named(make_dataset: Callable[..., Path]) -> None:
    folder = make_dataset(payloads=[jpeg(0), jpeg(1)[:300]])
    with pytest.raises(DecodeError, match="the image cannot be decoded") as undecodable:
        stoker.open(folder)[1]
    assert undecodable.value.key == "k1"
    dataset = stoker.open(folder)
    content = bytearray(dataset.data_files[0].read_bytes())
    content[dataset.index.column("offset")[0] + 200] ^= 1
    dataset.data_files[0].write_bytes(content)
    with pytest.raises(CorruptRecordError, match="checksum does not match") as damaged:
        dataset[0]
    assert damaged.value.key == "k0"


def test_text_has_no_images(tmp_path: Path) -> None:
    with stoker.TextWriter(tmp_path / "text") as writer:
        writer.write("a b")
    with pytest.raises(DatasetError, match="a sample of text has no image"):
        stoker.open(tmp_path / "text")[0]


def test_classes_of_a_selection_are_renumbered(make_dataset: Callable[..., Path]) -> None:
    dataset = stoker.open(make_dataset())  # cat, dog, eel, cat, dog, eel
    some = dataset.select(classes=["eel", "cat"], renumber=True)
    assert (some.classes, some.num_classes) == (("eel", "cat"), 2)
    assert (some.labels.tolist(), some.rows.tolist()) == ([1, 0, 1, 0], [0, 2, 3, 5])
    assert (some[1].label, some.values("label", [2]).tolist()) == (0, [1])
    assert some.fingerprint != dataset.select(classes=["eel", "cat"]).fingerprint
    assert some.fingerprint != dataset.select(classes=["cat", "eel"], renumber=True).fingerprint
    cats = some.select(classes="cat", renumber=True)
    assert (cats.classes, cats.labels.tolist(), cats.rows.tolist()) == (("cat",), [0, 0], [0, 3])
    assert some.select([3, 0]).labels.tolist() == [0, 1]
    assert dataset.select("label > 0", classes=["cat", "eel"], renumber=True).labels.tolist() == [1, 1]
    with stoker.ImageLoader(some, batch_size=4, transforms=[CenterCrop(8)], num_threads=1) as loader:
        assert next(iter(loader))[1].tolist() == [1, 0, 1, 0]
    mixed = stoker.mix([(some, 0.5), (dataset, 0.5)])
    assert [mixed.classes[label] for label in mixed.labels[:5]] == ["cat", "eel", "cat", "eel", "cat"]
    with pytest.raises(ConfigError, match="labels of this selection are renumbered"):
        some.select("label == 0")
    with pytest.raises(ConfigError, match="renumber=True needs classes"):
        dataset.select([0], renumber=True)
    with pytest.raises(ConfigError, match="named twice"):
        dataset.select(classes=["cat", "cat"], renumber=True)


def test_several_labels_are_renumbered(tmp_path: Path) -> None:
    with stoker.Writer(tmp_path / "out", classes=["a", "b", "c"]) as writer:
        for i, labels in enumerate(([0, 1], [2], [1, 2])):
            writer.write(image=jpeg(i), label=labels)
    some = stoker.open(tmp_path / "out").select(classes=["b", "a"], renumber=True)
    assert [sample.label for sample in some] == [[1, 0], [0]]


def test_classes_of_labels_and_objects_keep_their_numbers(tmp_path: Path) -> None:
    with stoker.Writer(tmp_path / "out", classes=["a", "b"]) as writer:
        writer.write(image=jpeg(0), label=0, boxes=np.array([[0, 0, 5, 5]], np.float32), box_labels=[1])
    with pytest.raises(ConfigError, match="this dataset has both"):
        stoker.open(tmp_path / "out").select(classes="a", renumber=True)


def test_a_stratified_split_has_the_share_of_each_class(tmp_path: Path) -> None:
    with stoker.Writer(tmp_path / "out", classes=["many", "few"]) as writer:
        for i in range(25):
            writer.write(image=jpeg(0, 2, 2), label=int(i % 5 == 0), key=f"{i}")
    dataset = stoker.open(tmp_path / "out")
    for fraction, counts in ((0.2, [4, 1]), (0.5, [10, 2]), (0.9, [18, 4]), (0, [0, 0]), (1, [20, 5])):
        first, second = dataset.split(fraction, seed=3)
        assert np.bincount(first.labels, minlength=2).tolist() == counts
        assert sorted([*first.rows, *second.rows]) == list(range(25))
    first = dataset.split(0.5, seed=3)[0]
    assert set(dataset.split(0.2, seed=3)[0].rows) < set(first.rows)
    assert set(dataset.split(0.5, seed=4)[0].rows) != set(first.rows)
    assert [len(part) for part in dataset.select([]).split(0.5)] == [0, 0]
