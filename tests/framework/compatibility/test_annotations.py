"""Objects and masks of our records, read by TensorFlow and, from LMDB, by DALI."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.dali import needs_dali
from helpers.dali_readers import read_caffe
from PIL import Image

import stoker

SIZES = [(40, 80), (50, 60), (30, 30)]
OBJECTS: list[list[dict[str, Any]]] = [
    [
        {"bbox": [8, 10, 40, 20], "category_id": 5, "area": 300.5, "keypoints": [10, 20, 2, 0, 0, 0]},
        {"bbox": [0, 0, 80, 40], "category_id": 2, "iscrowd": 1, "keypoints": [0, 0, 0, 1, 2, 1]},
    ],
    [],
    [{"bbox": [3, 6, 15, 12], "category_id": 2}],
]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three images with masks, and a file of COCO's annotations."""
    root = tmp_path_factory.mktemp("source")
    (root / "masks").mkdir()
    images, annotations = [], []
    for i, ((height, width), objects) in enumerate(zip(SIZES, OBJECTS, strict=True)):
        Image.new("RGB", (width, height), (i, 2, 3)).save(root / f"{i}.jpg")
        Image.fromarray(np.full((height, width), 7 * i, np.uint8)).save(root / "masks" / f"{i}.png")
        images.append({"id": i, "file_name": f"{i}.jpg", "height": height, "width": width})
        annotations += [{"id": len(annotations) + k, "image_id": i, **one} for k, one in enumerate(objects)]
    categories = [{"id": 2, "name": "cat"}, {"id": 5, "name": "dog", "keypoints": ["nose", "tail"]}]
    document = {"images": images, "annotations": annotations, "categories": categories}
    (root / "x.json").write_text(json.dumps(document))
    return root


def features(tf: Any) -> dict[str, Any]:
    """Returns the features of a record that tests read, as TensorFlow describes them."""
    kinds = {
        tf.int64: ["class/label", "is_crowd", "keypoint/visibility", "keypoint/num"],
        tf.float32: ["bbox/xmin", "bbox/ymin", "bbox/xmax", "bbox/ymax", "area", "keypoint/x", "keypoint/y"],
        tf.string: ["class/text", "keypoint/text"],
    }
    images = ("image/encoded", "image/segmentation/class/encoded", "image/segmentation/class/format")
    single = {name: tf.io.FixedLenFeature([], tf.string) for name in images}
    lists = {f"image/object/{name}": tf.io.VarLenFeature(kind) for kind in kinds for name in kinds[kind]}
    return {**single, "image/height": tf.io.FixedLenFeature([], tf.int64), **lists}


def read_with_tensorflow(files: Sequence[Path]) -> list[dict[str, Any]]:
    """Returns the features and the mask of each record."""
    tf = pytest.importorskip("tensorflow")
    rows = []
    for record in tf.data.TFRecordDataset([str(file) for file in files]):
        # As the object detection API's decoder does: a batch of one, then sparse to dense.
        parsed = tf.io.parse_example(record[None], features(tf))
        dense = {name: getattr(value, "values", value) for name, value in parsed.items()}
        row = {name: value.numpy().tolist() for name, value in dense.items()}
        rows.append({**row, "mask": tf.io.decode_png(row["image/segmentation/class/encoded"][0]).numpy()})
    return rows


def test_tensorflow_reads_objects_and_masks(source: Path, tmp_path: Path) -> None:
    stoker.convert(
        source / "x.json", tmp_path / "out", source_options=stoker.SourceOptions(masks=source / "masks")
    )
    dataset = stoker.open(tmp_path / "out")
    rows = read_with_tensorflow(dataset.data_files)
    assert len(rows) == 3
    for i, (row, (height, width)) in enumerate(zip(rows, SIZES, strict=True)):
        found = dataset.annotations([i])
        of_objects = {name.removeprefix("image/object/"): value for name, value in row.items()}
        sides = [of_objects[f"bbox/{side}"] for side in ("xmin", "ymin", "xmax", "ymax")]
        boxes = np.array(sides).T.reshape(-1, 4) * (width, height, width, height)
        np.testing.assert_allclose(boxes, found.boxes, rtol=1e-6)
        assert of_objects["class/label"] == (found.labels + 1).tolist()
        texts = [text.decode() for text in of_objects["class/text"]]
        assert texts == [dataset.classes[label] for label in found.labels]
        assert of_objects["is_crowd"] == found.crowd.astype(int).tolist()
        np.testing.assert_allclose(of_objects["area"], found.area)
        assert found.keypoints is not None
        points = [of_objects[f"keypoint/{name}"] for name in ("x", "y", "visibility")]
        keypoints = np.array(points).T.reshape(-1, 2, 3) * (width, height, 1)
        np.testing.assert_allclose(keypoints, found.keypoints, rtol=1e-6)
        assert of_objects["keypoint/num"] == [2] * len(found)
        assert of_objects["keypoint/text"] == [b"nose", b"tail"] * len(found)
        assert row["image/segmentation/class/encoded"] == [dataset.mask(i)]
        assert row["image/segmentation/class/format"] == [b"png"]
        assert row["mask"].shape == (height, width, 1)
        assert row["mask"].max() == 7 * i


@needs_dali
def test_readers_caffe_passes_over_masks(source: Path, tmp_path: Path) -> None:
    stoker.convert(
        source / "x.json",
        tmp_path / "out",
        container="lmdb",
        source_options=stoker.SourceOptions(masks=source / "masks"),
    )
    dataset = stoker.open(tmp_path / "out")
    rows = read_caffe([dataset.data_files[0].parent], samples=3)
    assert [bytes(encoded) for encoded, _, _ in rows] == [dataset.read(i) for i in range(3)]
    assert [shape for _, _, shape in rows] == [[*size, 3] for size in SIZES]
