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
from stoker.formats.dataset.columns.run_lengths import runs_of_mask

SIDE = 16
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
def test_annotations_come_back_from_shards(
    folder: Path, objects: list[dict[str, Any]], seed: int, backwards: bool
) -> None:
    annotations = [{"id": 100 + i, **one} for i, one in enumerate(objects)]
    document = {
        "images": [{"id": i, "file_name": f"{i}.png", "height": SIDE, "width": SIDE} for i in range(5)],
        "annotations": annotations,
        "categories": [{"id": i, "name": str(i)} for i in (11, 2, 5)],
    }
    (folder / "x.json").write_text(json.dumps(dict(reversed(document.items())) if backwards else document))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: None)
        stoker.convert(folder / "x.json", folder / "out", seed=seed, shard_records=2, overwrite=True)
    dataset = stoker.open(folder / "out")
    assert stoker.verify(folder / "out").ok
    found = dataset.annotations(range(5))
    image = dataset.column("image_id")[found.owner]
    assert sorted(found.id.tolist()) == [one["id"] for one in annotations]
    for at, number in enumerate(found.id.tolist()):
        source = annotations[number - 100]
        left, top, width, height = source["bbox"]
        box = np.array([left, top, left + width, top + height], np.float32)
        assert image[at] == source["image_id"]
        assert found.labels[at] == [2, 5, 11].index(source["category_id"])
        assert found.boxes[at].tolist() == box.tolist()
        assert found.crowd[at] == source["iscrowd"]
        assert math.isclose(found.area[at], source.get("area", width * height), rel_tol=1e-6)
        segmentation = source.get("segmentation", [])
        polygons = segmentation if isinstance(segmentation, list) else []
        runs = segmentation["counts"] if isinstance(segmentation, dict) else []
        seen = [] if found.polygons is None else [part.reshape(-1) for part in found.polygons[at]]
        assert len(seen) == len(polygons)
        for one, other in zip(seen, polygons, strict=True):
            np.testing.assert_array_equal(one, np.array(other, np.float32))
        assert ([] if found.runs is None else found.runs[at].tolist()) == runs
        if "keypoints" in source:
            assert found.keypoints is not None
            middle = np.array([0.5, 0.5, 0], np.float32)
            expected = np.array(source["keypoints"], np.float32).reshape(2, 3) + middle
            np.testing.assert_array_equal(found.keypoints[at], expected)
