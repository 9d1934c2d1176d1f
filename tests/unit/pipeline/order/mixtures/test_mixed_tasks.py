"""Mixtures of datasets with different tasks have the columns that all of them have."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.annotations import FOLDERS, AnnotatedSource, truth
from helpers.options import convert_options

import stoker
from stoker.augment import Letterbox
from stoker.errors import ConfigError

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


@pytest.fixture
def by_format(tmp_path: Path) -> dict[str, Path]:
    """COCO's objects with keypoints and polygons; VOC's with run lengths and class masks; boxes alone."""
    converted = {}
    for name in ("coco", "voc SegmentationObject", "yolo"):
        source = FOLDERS[name](tmp_path / f"source {name}")
        converted[name.split()[0]] = convert(source, tmp_path / name.split()[0])
    return converted


def convert(source: AnnotatedSource, target: Path) -> Path:
    stoker.convert(source.src, target, **convert_options(source.options))
    return target


def test_objects_of_polygons_and_of_run_lengths_share_a_column_of_masks(by_format: dict[str, Path]) -> None:
    mixture = stoker.mix([(by_format["coco"], 1), (by_format["voc"], 1)])
    assert mixture.tasks == {"boxes", "instances"}
    voc, coco = (by_format["voc"],), (by_format["coco"],)
    assert mixture.left_out == {"keypoints": voc, "image_id": voc, "segmentation": coco}
    assert repr(mixture).endswith("; without image_id, keypoints, segmentation>")
    columns = ("image", "boxes", "box_labels", "masks", "segmentation")
    with stoker.ImageLoader(mixture, batch_size=6, columns=columns, transforms=[Letterbox(120)]) as loader:
        batch = next(iter(loader))
    for boxes, masks in zip(batch.boxes, batch.masks, strict=True):
        areas = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
        np.testing.assert_allclose(masks.sum(axis=(1, 2)), areas, rtol=0.05)
    names = [{mixture.classes[label] for label in labels} for labels in batch.box_labels]
    assert names == [{"person", "car"}] * 6


def test_a_column_that_one_dataset_lacks_names_this_dataset(by_format: dict[str, Path]) -> None:
    mixture = stoker.mix([(folder, 1) for folder in by_format.values()])
    assert mixture.tasks == {"boxes"}
    with pytest.raises(
        ConfigError, match=r"no 'masks', which \S+yolo lacks; a mixture has the columns"
    ) as caught:
        stoker.ImageLoader(mixture, batch_size=2, columns=("image", "masks"), transforms=[Letterbox(64)])
    assert "box_labels" in str(caught.value)


def test_masks_of_classes_mix_with_objects_without_a_column_of_labels(
    by_format: dict[str, Path], tmp_path: Path
) -> None:
    source = tmp_path / "source voc SegmentationObject"
    masks = convert(
        AnnotatedSource(source / "JPEGImages", {"masks": source / "SegmentationClass"}), tmp_path / "masks"
    )
    mixture = stoker.mix([(masks, 1), (by_format["voc"], 1)])
    assert (mixture.tasks, mixture.classes) == ({"segmentation"}, ())
    columns = ("image", "segmentation")
    with stoker.ImageLoader(mixture, batch_size=6, columns=columns, transforms=[Letterbox(64)]) as loader:
        assert set(np.unique(next(iter(loader)).segmentation)) == {0, 7, 15, 255}


def test_keypoints_with_different_names_are_refused(by_format: dict[str, Path], tmp_path: Path) -> None:
    source = FOLDERS["coco"](tmp_path / "other")
    content = truth()
    for category in content["categories"]:
        category["keypoints"] = ["head", "tail"]
    source.src.write_text(json.dumps(content))
    other = convert(source, tmp_path / "tails")
    with pytest.raises(ConfigError, match="have different meanings: keypoints and swap differ"):
        stoker.mix([(by_format["coco"], 1), (other, 1)])
    assert stoker.mix([(by_format["yolo"], 1), (other, 1)]).tasks == {"boxes"}
