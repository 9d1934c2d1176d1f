"""Tests of conversions of some classes alone, and with limits on the images of each class."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stoker
from stoker.errors import ConfigError, SourceError

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


@pytest.fixture
def photos(tmp_path: Path, make_jpeg: Callable[..., bytes]) -> Path:
    """Two images of cats, six of dogs and four of eels."""
    for name, count in {"cat": 2, "dog": 6, "eel": 4}.items():
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(count):
            (tmp_path / "photos" / name / f"{number}.jpg").write_bytes(make_jpeg(number))
    return tmp_path / "photos"


def converted(photos: Path, target: str, **options: Any) -> stoker.Dataset:
    stoker.convert(photos, photos.parent / target, **options)
    return stoker.open(photos.parent / target)


def classes_of(dataset: stoker.Dataset) -> dict[str, int]:
    return dict(Counter(key.split("/")[0] for key in dataset.keys(range(len(dataset)))))


def test_small_classes_are_left_out_and_large_ones_cut(photos: Path) -> None:
    dataset = converted(photos, "out", min_per_class=3, max_per_class=4, seed=1)
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
    assert stoker.convert(photos, dataset.path, min_per_class=3, max_per_class=4, seed=1).already


def test_the_seed_and_the_keys_choose_the_images_of_a_large_class(photos: Path) -> None:
    def chosen(target: str, seed: int) -> set[str]:
        return set(converted(photos, target, max_per_class=3, seed=seed).keys(range(8)))

    first = chosen("first", 1)
    assert chosen("second", 2) != first
    (photos / "dog" / "5.jpg").unlink()
    assert first - {"dog/5.jpg"} <= chosen("fewer", 1)


def test_some_classes_alone_keep_the_numbers_of_the_names(photos: Path) -> None:
    with pytest.raises(SourceError, match="not among the 2 given"):
        converted(photos, "none", classes=["eel", "cat"])
    dataset = converted(
        photos, "out", classes=["eel", "yak", "cat"], skip_other_classes=True, min_per_class=3
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
def test_choices_that_cannot_be_meant_are_refused(
    photos: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises((ConfigError, SourceError), match=message):
        converted(photos, "none", **options)


def test_samples_need_one_label_each(photos: Path) -> None:
    file = photos / "list.json"
    file.write_text(json.dumps([{"path": "cat/0.jpg", "labels": [1, 2]}]))
    with pytest.raises(ConfigError, match="one label each, and these have several"):
        stoker.convert(file, photos.parent / "none", max_per_class=1)
