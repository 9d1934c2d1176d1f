"""Tests of conversions of some classes alone, and of limits on the images of each class."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.data.datasets import converted

import stoker
from stoker.errors import ConfigError, SourceError

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


@pytest.fixture
def pets(tree: Callable[..., Path]) -> Path:
    """Two images of cats, six of dogs and four of eels."""
    counts = {"cat": 2, "dog": 6, "eel": 4}
    return tree(*(f"{name}/{number}.jpg" for name, count in counts.items() for number in range(count)))


def classes_of(dataset: stoker.Dataset) -> dict[str, int]:
    return dict(Counter(key.split("/")[0] for key in dataset.keys(range(len(dataset)))))


def test_small_classes_are_left_out_and_large_ones_cut(pets: Path, tmp_path: Path) -> None:
    dataset = converted(pets, tmp_path / "out", min_per_class=3, max_per_class=4, seed=1)
    assert classes_of(dataset) == {"dog": 4, "eel": 4}
    assert dataset.classes == ("dog", "eel")
    assert all(
        dataset.classes[label] == key.split("/")[0]
        for key, label in zip(dataset.keys(range(8)), dataset.labels, strict=True)
    )
    assert dataset.manifest.skipped == {
        "beyond the 4 images of a class": 2,
        "class with fewer than 3 images": 2,
    }
    lines = (dataset.path / "skipped.jsonl").read_text().splitlines()
    assert [json.loads(line)["key"].split("/")[0] for line in lines] == ["cat", "cat", "dog", "dog"]
    assert stoker.convert(pets, dataset.path, min_per_class=3, max_per_class=4, seed=1).already


def test_the_seed_and_the_keys_choose_the_images_of_a_large_class(pets: Path, tmp_path: Path) -> None:
    def chosen(target: str, seed: int) -> set[str]:
        return set(converted(pets, tmp_path / target, max_per_class=3, seed=seed).keys(range(8)))

    first = chosen("first", 1)
    assert chosen("second", 2) != first
    (pets / "dog" / "5.jpg").unlink()
    assert first - {"dog/5.jpg"} <= chosen("fewer", 1)


def test_chosen_classes_have_the_numbers_of_the_given_names(pets: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="not among the 2 given"):
        stoker.convert(pets, tmp_path / "none", classes=["eel", "cat"])
    dataset = converted(
        pets, tmp_path / "out", classes=["eel", "yak", "cat"], skip_other_classes=True, min_per_class=3
    )
    assert classes_of(dataset) == {"eel": 4}
    assert dataset.classes == ("eel", "yak", "cat")
    assert dataset.labels.tolist() == [0] * 4
    assert dataset.manifest.skipped == {"class that was not chosen": 6, "class with fewer than 3 images": 2}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_per_class": 0}, "min_per_class is 1 or more"),
        ({"min_per_class": 3, "max_per_class": 2}, "at most max_per_class, not 3 and 2"),
        ({"skip_other_classes": True}, "skip_other_classes needs classes"),
        ({"min_per_class": 7}, "no sample is left: class with fewer than 7 images"),
        ({"classes": ["yak"], "skip_other_classes": True}, "no sample is left: class that was not chosen"),
    ],
)
def test_limits_that_leave_no_sample_or_contradict_each_other_are_refused(
    pets: Path, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises((ConfigError, SourceError), match=message):
        stoker.convert(pets, tmp_path / "none", **options)


def test_limits_for_samples_of_several_labels_are_refused(pets: Path, tmp_path: Path) -> None:
    file = pets / "list.json"
    file.write_text(json.dumps([{"path": "cat/0.jpg", "labels": [1, 2]}]))
    with pytest.raises(ConfigError, match="one label each, and these have several"):
        stoker.convert(file, tmp_path / "none", max_per_class=1)
