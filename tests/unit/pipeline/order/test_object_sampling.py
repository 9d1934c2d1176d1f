"""Sampling by the classes of objects: a class draws the images that show it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from helpers.annotations import FOLDERS, truth
from helpers.loaders import rows_of

import stoker
from stoker import ClassBalanced
from stoker.augment import Letterbox
from stoker.errors import CheckpointError, ConfigError

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


@pytest.fixture
def dataset(tmp_path: Path) -> Any:
    """Three images, with people only on the first and cars on all; and one without objects."""
    source = FOLDERS["coco"](tmp_path / "source")
    content = truth()
    content["annotations"] = [
        entry for entry in content["annotations"] if entry["image_id"] == 1 or entry["category_id"] == 2
    ]
    (tmp_path / "source" / "3.png").write_bytes((tmp_path / "source" / "2.png").read_bytes())
    content["images"].append({"id": 9, "file_name": "3.png", "height": 80, "width": 80})
    source.src.write_text(json.dumps(content))
    stoker.convert(source.src, tmp_path / "shards")
    return stoker.open(tmp_path / "shards")


def load(dataset: Any, **options: Any) -> stoker.ImageLoader:
    sampler = ClassBalanced("object_labels", samples=12)
    defaults = {"batch_size": 4, "columns": ("row",), "transforms": [Letterbox(8)], "sampler": sampler}
    return stoker.ImageLoader(dataset, **{**defaults, **options})


def test_classes_of_objects_are_drawn_equally_often(dataset: Any) -> None:
    with load(dataset) as loader:
        assert Counter(rows_of(loader)) == {0: 6 + 2, 1: 2, 2: 2}
    people = dataset.select(classes=["person"])
    with load(people) as loader:
        assert Counter(rows_of(loader)) == {0: 12}


def test_a_state_resumes_with_the_same_classes_only(dataset: Any) -> None:
    with load(dataset) as loader, load(dataset) as again:
        whole = rows_of(loader)
        steps = iter(again)
        first = next(steps).row.tolist()
        state = again.state_dict()
    with load(dataset) as resumed, load(dataset, sampler=ClassBalanced("image_id", samples=12)) as other:
        resumed.load_state_dict(state)
        assert first + rows_of(resumed) == whole
        with pytest.raises(CheckpointError, match="order was"):
            other.load_state_dict(state)


def test_images_without_objects_are_refused(thumbnails: Path) -> None:
    with pytest.raises(ConfigError, match="needs objects, and the dataset has none"):
        load(thumbnails)
