"""Annotations of any COCO file come back from the shards."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import stoker
from stoker.formats.dataset.annotations import Annotations, runs_of_mask

SIDE = 16
pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")

COORDINATE = st.floats(0, SIDE - 1, width=32).map(lambda x: round(x, 2))


@st.composite
def masks(draw: st.DrawFn) -> dict[str, Any]:
    bits = draw(st.integers(0, (1 << SIDE * SIDE) - 1))
    mask = np.array([bits >> i & 1 for i in range(SIDE * SIDE)], bool).reshape(SIDE, SIDE)
    return {"size": [SIDE, SIDE], "counts": runs_of_mask(mask).tolist()}


POLYGON = st.integers(3, 6).flatmap(lambda n: st.lists(COORDINATE, min_size=2 * n, max_size=2 * n))
POINT = st.tuples(st.integers(0, SIDE - 1), st.integers(0, SIDE - 1), st.integers(1, 2))
KEYPOINTS = st.lists(POINT, min_size=2, max_size=2)
OBJECT = st.fixed_dictionaries(
    {
        "image_id": st.integers(0, 4),
        "category_id": st.sampled_from([2, 5, 11]),
        "bbox": st.tuples(COORDINATE, COORDINATE, st.just(1.0), st.sampled_from([0.5, 1.0])),
        "iscrowd": st.integers(0, 1),
    },
    optional={
        "area": st.floats(0, 100, width=32),
        "segmentation": st.lists(POLYGON, max_size=2) | masks(),
        "keypoints": KEYPOINTS.map(lambda points: [number for point in points for number in point]),
    },
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("coco")
    for i in range(5):
        Image.new("RGB", (SIDE, SIDE), (i, i, i)).save(folder / f"{i}.png")
    return folder


@settings(max_examples=15)
@given(st.lists(OBJECT, max_size=12), st.integers(0, 3), st.booleans())
def test_annotations_of_a_dataset_are_those_of_the_coco_file(
    folder: Path, objects: list[dict[str, Any]], seed: int, backwards: bool
) -> None:
    annotations = [{"id": 100 + i, **fields} for i, fields in enumerate(objects)]
    document = {
        "images": [{"id": i, "file_name": f"{i}.png", "height": SIDE, "width": SIDE} for i in range(5)],
        "annotations": annotations,
        "categories": [{"id": i, "name": str(i)} for i in (11, 2, 5)],
    }
    (folder / "x.json").write_text(json.dumps(dict(reversed(document.items())) if backwards else document))
    stoker.convert(
        folder / "x.json",
        folder / "out",
        seed=seed,
        overwrite=True,
        storage=stoker.ImageStorage(shard_records=2),
    )
    dataset = stoker.open(folder / "out")
    assert stoker.verify(folder / "out").ok
    stored = dataset.annotations(range(5))
    images = dataset.column("image_id")[stored.owner]
    assert sorted(stored.id.tolist()) == [source["id"] for source in annotations]
    for k, number in enumerate(stored.id.tolist()):
        assert images[k] == annotations[number - 100]["image_id"]
        check_object(stored, k, annotations[number - 100])


def check_object(stored: Annotations, k: int, source: dict[str, Any]) -> None:
    """Compares an object of the dataset with its annotation in the COCO file."""
    left, top, width, height = source["bbox"]
    box = np.array([left, top, left + width, top + height], np.float32)
    assert stored.labels[k] == [2, 5, 11].index(source["category_id"])
    assert stored.boxes[k].tolist() == box.tolist()
    assert stored.crowd[k] == source["iscrowd"]
    assert math.isclose(stored.area[k], source.get("area", width * height), rel_tol=1e-6)
    segmentation = source.get("segmentation", [])
    polygons = segmentation if isinstance(segmentation, list) else []
    runs = segmentation["counts"] if isinstance(segmentation, dict) else []
    parts = [] if stored.polygons is None else [part.reshape(-1) for part in stored.polygons[k]]
    for part, polygon in zip(parts, polygons, strict=True):
        np.testing.assert_array_equal(part, np.array(polygon, np.float32))
    assert ([] if stored.runs is None else stored.runs[k].tolist()) == runs
    if "keypoints" in source:
        assert stored.keypoints is not None
        middle = np.array([0.5, 0.5, 0], np.float32)
        expected = np.array(source["keypoints"], np.float32).reshape(2, 3) + middle
        np.testing.assert_array_equal(stored.keypoints[k], expected)
