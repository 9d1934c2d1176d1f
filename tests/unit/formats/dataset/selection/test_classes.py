"""Tests of selections with some of the classes, whose labels get new numbers."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers.data.datasets import jpeg

import stoker
from stoker.augment import CenterCrop
from stoker.errors import ConfigError


@pytest.fixture
def dataset(make_dataset: Callable[..., Path]) -> stoker.Dataset:
    """Six images of the classes cat, dog, eel, cat, dog, eel."""
    return stoker.open(make_dataset())


@pytest.fixture
def eels_and_cats(dataset: stoker.Dataset) -> stoker.Dataset:
    return dataset.select(classes=["eel", "cat"], renumber=True)


def test_chosen_classes_are_numbered_from_0_in_the_order_of_their_names(
    eels_and_cats: stoker.Dataset,
) -> None:
    assert (eels_and_cats.classes, eels_and_cats.num_classes) == (("eel", "cat"), 2)
    assert (eels_and_cats.labels.tolist(), eels_and_cats.rows.tolist()) == ([1, 0, 1, 0], [0, 2, 3, 5])
    assert (eels_and_cats[1].label, eels_and_cats.values("label", [2]).tolist()) == (0, [1])
    assert eels_and_cats.select([3, 0]).labels.tolist() == [0, 1]
    with stoker.ImageLoader(eels_and_cats, batch_size=4, transforms=[CenterCrop(8)], num_threads=1) as loader:
        assert next(iter(loader))[1].tolist() == [1, 0, 1, 0]


def test_renumbered_classes_are_chosen_from_again(eels_and_cats: stoker.Dataset) -> None:
    cats = eels_and_cats.select(classes="cat", renumber=True)
    assert (cats.classes, cats.labels.tolist(), cats.rows.tolist()) == (("cat",), [0, 0], [0, 3])


def test_a_condition_compares_the_labels_before_they_are_renumbered(dataset: stoker.Dataset) -> None:
    assert dataset.select("label > 0", classes=["cat", "eel"], renumber=True).labels.tolist() == [1, 1]


def test_new_numbers_change_the_fingerprint(dataset: stoker.Dataset, eels_and_cats: stoker.Dataset) -> None:
    others = [
        dataset.select(classes=["eel", "cat"]),
        dataset.select(classes=["cat", "eel"], renumber=True),
    ]
    assert eels_and_cats.fingerprint not in [other.fingerprint for other in others]


def test_a_mixture_joins_renumbered_classes_by_name(
    dataset: stoker.Dataset, eels_and_cats: stoker.Dataset
) -> None:
    mixed = stoker.mix([(eels_and_cats, 0.5), (dataset, 0.5)])
    assert [mixed.classes[label] for label in mixed.labels[:5]] == ["cat", "eel", "cat", "eel", "cat"]


def test_renumbering_that_cannot_be_meant_is_refused(
    dataset: stoker.Dataset, eels_and_cats: stoker.Dataset
) -> None:
    with pytest.raises(ConfigError, match="labels of this selection are renumbered"):
        eels_and_cats.select("label == 0")
    with pytest.raises(ConfigError, match="renumber=True needs classes"):
        dataset.select([0], renumber=True)
    with pytest.raises(ConfigError, match="named twice"):
        dataset.select(classes=["cat", "cat"], renumber=True)


def test_several_labels_of_a_sample_are_renumbered(tmp_path: Path) -> None:
    with stoker.Writer(tmp_path / "out", classes=["a", "b", "c"]) as writer:
        for i, labels in enumerate(([0, 1], [2], [1, 2])):
            writer.write(image=jpeg(i), label=labels)
    some = stoker.open(tmp_path / "out").select(classes=["b", "a"], renumber=True)
    assert [sample.label for sample in some] == [[1, 0], [0]]


def test_a_dataset_with_labels_and_objects_is_not_renumbered(tmp_path: Path) -> None:
    with stoker.Writer(tmp_path / "out", classes=["a", "b"]) as writer:
        writer.write(image=jpeg(0), label=0, boxes=np.array([[0, 0, 5, 5]], np.float32), box_labels=[1])
    with pytest.raises(ConfigError, match="this dataset has both"):
        stoker.open(tmp_path / "out").select(classes="a", renumber=True)
