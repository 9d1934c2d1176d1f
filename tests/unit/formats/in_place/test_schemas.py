"""TFRecord files of other schemas: raw pixels, labels of all forms, objects of the object detection API."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data.datasets import verified
from helpers.data.shards.external_shards import write_tfrecord

import stoker
from stoker.augment import CenterCrop
from stoker.errors import ConfigError, SourceError
from stoker.formats.containers.image_record import parse_shape
from stoker.formats.containers.protobuf import Feature
from stoker.formats.in_place import shards as external_index

Jpeg = Callable[..., bytes]
RAW = {"encoded": "img_raw", "label": "label", "raw": True}
SIZED = {**RAW, "height": "height", "width": "width"}


def index(tmp_path: Path, records: list[dict[str, Feature]], **names: Any) -> stoker.Dataset:
    """The dataset of a TFRecord file of these records, verified."""
    path = write_tfrecord(tmp_path / "x", records)  # type: ignore[arg-type]  # a list of dicts
    external_index.index([path], tmp_path / "into", names=names)
    return verified(tmp_path / "into")


def pixels(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).integers(0, 256, shape, np.uint8)


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize("shape", [(4, 5, 3), (4, 5, 1), (4, 5)])
def test_raw_pixels_have_one_shape_or_a_size_in_each_record(
    tmp_path: Path, shape: tuple[int, ...], sized: bool, engine: str
) -> None:
    images = pixels(2, *shape)
    records: list[dict[str, Feature]] = [
        {"img_raw": image.tobytes(), "label": [i], "height": [4], "width": [5]}
        for i, image in enumerate(images)
    ]
    dataset = index(tmp_path, records, **(SIZED if sized else {**RAW, "shape": shape}))
    options: Any = {"transforms": [CenterCrop((4, 5))], "dtype": "uint8", "layout": "NHWC", "engine": engine}
    with stoker.ImageLoader(dataset, batch_size=2, **options) as loader:
        ((batch, labels),) = loader
    assert np.array_equal(batch, np.broadcast_to(images.reshape(2, 4, 5, -1), (2, 4, 5, 3)))
    assert labels.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({**RAW, "shape": (4, 4, 3)}, "60 bytes of raw pixels are not 4 x 4 x 3 pixels"),
        ({**SIZED, "height": "width"}, "60 bytes of raw pixels are neither grey nor RGB of 5 x 5"),
        ({**SIZED, "height": "none"}, "neither grey nor RGB of 0 x 5"),
    ],
)
def test_raw_pixels_of_another_length_are_refused(
    tmp_path: Path, names: dict[str, Any], message: str
) -> None:
    record: dict[str, Feature] = {"img_raw": bytes(60), "label": [0], "height": [4], "width": [5]}
    with pytest.raises(SourceError, match=message) as caught:
        index(tmp_path, [record], **names)
    assert (caught.value.shard, caught.value.record) == ("x", 0)


@pytest.mark.parametrize(
    ("label_type", "stored", "expected"),
    [
        ("int", [[3.0], [1.0]], [3, 1]),
        ("one-hot", [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], [2, 0]),
        ("one-hot", [[0, 1], [1, 0]], [1, 0]),
        ("several", [[2, 0], []], [[2, 0], []]),
        ("multi-hot", [[1, 0, 1], [0, 0, 0]], [[0, 2], []]),
    ],
)
def test_labels_are_read_in_each_form(
    tmp_path: Path, make_jpeg: Jpeg, label_type: str, stored: list[Any], expected: list[Any]
) -> None:
    records = [{"image/encoded": make_jpeg(i), "y": values} for i, values in enumerate(stored)]
    dataset = index(tmp_path, records, label="y", label_type=label_type)
    if dataset.tasks == {"label"}:
        assert dataset.labels.tolist() == expected
    else:
        lists = [dataset.lists("label", [i]).values.tolist() for i in range(2)]
        assert (dataset.tasks, lists) == ({"labels"}, expected)
    assert dataset.num_classes == max(np.hstack(expected).astype(int)) + 1


def test_features_of_one_value_can_be_columns(tmp_path: Path, make_jpeg: Jpeg) -> None:
    records: list[dict[str, Feature]] = [
        {"image/encoded": make_jpeg(0), "text": b"a cat", "score": [0.5], "count": [2]},
        {"image/encoded": make_jpeg(1), "text": [], "count": [3]},
    ]
    columns = {"caption": "text", "score": "score", "n": "count"}
    dataset = index(tmp_path, records, columns=columns)
    assert dataset.strings("caption", [0, 1]) == ["a cat", ""]
    assert np.array_equal(dataset.column("score"), [0.5, np.nan], equal_nan=True)
    assert dataset.column("n").tolist() == [2, 3]
    several: list[dict[str, Feature]] = [{"image/encoded": make_jpeg(0), "count": [1, 2]}]
    with pytest.raises(SourceError, match="'count' holds 2 values"):
        index(tmp_path / "into", several, columns={"n": "count"})


def test_a_float_label_is_a_number_in_batches(tmp_path: Path, make_jpeg: Jpeg) -> None:
    records: list[dict[str, Feature]] = [{"image/encoded": make_jpeg(i), "y": [i - 0.5]} for i in range(2)]
    dataset = index(tmp_path, records, label="y", label_type="float")
    assert (dataset.tasks, dataset.classes) == (frozenset(), ())
    with stoker.ImageLoader(dataset, batch_size=2, transforms=[CenterCrop(8)], num_threads=1) as loader:
        ((_, labels),) = loader
    assert (labels.dtype, labels.tolist()) == (np.float32, [-0.5, 0.5])


@pytest.mark.parametrize(
    ("label_type", "values", "message"),
    [
        ("int", [0.5], "'y' must be one integer, found 0.5"),
        ("int", [1, 2], "'y' must be one number, found 2"),
        ("one-hot", [1.0, 1.0], "'y' must be one-hot, with one 1, found 2"),
        ("one-hot", [1.0, 0.5], "'y' must be one-hot, with numbers 0 and 1, found 0.5"),
        ("multi-hot", [2, 0], "'y' must be multi-hot, with numbers 0 and 1, found 2"),
        ("several", [0.5], "'y' must be one integer, found 0.5"),
    ],
)
def test_labels_of_another_form_are_refused(
    tmp_path: Path, make_jpeg: Jpeg, label_type: str, values: list[Any], message: str
) -> None:
    with pytest.raises(SourceError, match=message):
        index(tmp_path, [{"image/encoded": make_jpeg(0), "y": values}], label="y", label_type=label_type)


def detection(
    image: bytes, boxes: list[list[float]], labels: list[int], **more: Feature
) -> dict[str, Feature]:
    """A record of the object detection API; boxes are ymin, xmin, ymax, xmax in shares."""
    sides = zip(*boxes, strict=True) if boxes else ([],) * 4
    features: dict[str, Feature] = {
        f"image/object/bbox/{side}": list(values)
        for side, values in zip(("ymin", "xmin", "ymax", "xmax"), sides, strict=True)
    }
    named = {f"image/object/{name}": value for name, value in more.items()}
    return {"image/encoded": image, **features, "image/object/class/label": labels, **named}


def test_objects_of_the_object_detection_api_are_clipped_and_counted(tmp_path: Path, make_jpeg: Jpeg) -> None:
    image = make_jpeg(0, 20, 40)
    names = {"class/text": [b"dog", b"cat"], "is_crowd": [0, 1], "area": [3.0, 4.0], "difficult": [1, 0]}
    imagenet = detection(image, [[0.0, 0.0, 1.0, 1.0]], [1])
    del imagenet["image/object/class/label"]
    records = [
        imagenet,
        detection(image, [[0.1, 0.25, 0.5, 0.75], [0.0, 0.0, 1.05, 1.0]], [2, 1], **names),  # type: ignore[arg-type]  # features by name
        detection(image, [], []),
        detection(image, [[0.5, 0.5, 0.5, 0.6], [0.0, 0.0, 0.5, 0.5]], [2, 1]),
    ]
    dataset = index(tmp_path, records)
    assert (dataset.tasks, dataset.classes) == ({"boxes"}, ("cat", "dog"))
    objects = dataset.annotations(range(4))
    assert objects.owner.tolist() == [1, 1, 3]
    assert objects.boxes.tolist() == [[10, 2, 30, 10], [0, 0, 40, 20], [0, 0, 20, 10]]
    assert (objects.labels.tolist(), objects.crowd.tolist()) == ([1, 0, 0], [False, True, False])
    assert (objects.area.tolist(), objects.extra["difficult"].tolist()) == ([3, 4, 200], [1, 0, 0])
    assert dataset.manifest.skipped == {"object without an area": 1}
    assert index(tmp_path / "into", records, objects="").tasks == frozenset()


def test_shards_of_a_writer_can_be_indexed_with_their_objects(tmp_path: Path, make_jpeg: Jpeg) -> None:
    """Stoker's own shards have the features of the API."""
    with stoker.Writer(tmp_path / "written", classes=["a", "b"]) as writer:
        for i in range(3):
            boxes = np.array([[1, 2, 7, 8.5]] * i, np.float32).reshape(-1, 4)
            writer.write(image=make_jpeg(i, 20, 30), boxes=boxes, box_labels=[1] * i, key=str(i))
    written = stoker.open(tmp_path / "written")
    external_index.index(written.data_files, tmp_path / "into")
    indexed = stoker.open(tmp_path / "into")
    assert indexed.classes == ("0", "b")
    objects, expected = (dataset.annotations(range(3)) for dataset in (indexed, written))
    for name in ("owner", "labels", "crowd", "area"):
        assert getattr(objects, name).tolist() == getattr(expected, name).tolist()
    np.testing.assert_allclose(objects.boxes, expected.boxes, rtol=1e-6)


@pytest.mark.parametrize(
    ("boxes", "labels", "message"),
    [
        ([[0.0, 0.0, 20.0, 40.0]], [1], "box is not in shares of the image's width and height"),
        ([[0.0, 0.0, 1.0, 1.0]], [0], "label 0, and the object detection API counts classes from 1"),
        ([[0.0, 0.0, 1.0, 1.0]], [1, 2], "class/label has 2 numbers where bbox/xmin has 1"),
    ],
)
def test_objects_that_are_not_those_of_the_api_are_refused(
    tmp_path: Path, make_jpeg: Jpeg, boxes: list[list[float]], labels: list[int], message: str
) -> None:
    with pytest.raises(SourceError, match=message) as caught:
        index(tmp_path, [detection(make_jpeg(0), boxes, labels)])
    assert "objects" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"shape": (4, 4)}, "height, width and shape are for raw pixels"),
        ({"raw": True, "shape": (3, 4, 4)}, "1 or 3 channels, found 3x4x4"),
        ({"label_type": "name"}, "label_type must be one of int, float, several"),
    ],
)
def test_invalid_names_of_features_are_refused(names: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        external_index.FeatureNames(**names)


def test_a_shape_is_height_x_width_x_channels() -> None:
    assert parse_shape("32x32x3") == (32, 32, 3)
    with pytest.raises(ConfigError, match="such as 32x32x3, found '32 32'"):
        parse_shape("32 32")
