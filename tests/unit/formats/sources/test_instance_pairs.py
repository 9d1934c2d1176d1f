"""Tests of masks whose values number objects: their boxes, classes and run lengths."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.datasets import converted
from PIL import Image

import stoker
from stoker.augment import Resize, masks_to_source
from stoker.errors import ConfigError, SourceError
from stoker.formats.sources.masks import instances_of

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")

H, W = 20, 30


def save(path: Path, values: Any, palette: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(np.asarray(values))
    if palette:
        image.putpalette(list(range(256)) * 3)
    image.save(path)


def blank(kind: Any = np.uint8) -> np.ndarray[Any, Any]:
    return np.zeros((H, W), kind)


def photo(path: Path) -> None:
    save(path, np.full((H, W, 3), 90, np.uint8))


def cityscapes(root: Path) -> tuple[Path, Path]:
    """Two images of a city: a car, a person behind it in two parts, a group of people, and road."""
    for name in ("ulm_000000", "ulm_000001"):
        values = blank(np.uint16)
        values[10:] = 7
        values[4:9, 2:20] = 24001
        values[6:12, 8:14] = 26000
        values[2:5, 22:28] = 24
        values[0, 0], values[0, 1] = 29001, 65535
        photo(root / "leftImg8bit" / "train" / "ulm" / f"{name}_leftImg8bit.png")
        folder = root / "gtFine" / "train" / "ulm"
        save(folder / f"{name}_gtFine_instanceIds.png", values)
        ids = np.where(values >= 1000, values // 1000, values).astype(np.uint8)
        save(folder / f"{name}_gtFine_labelIds.png", np.where(ids == 29, 29, ids) * (values < 65535))
    return root / "leftImg8bit" / "train", root / "gtFine" / "train"


def voc(root: Path) -> Path:
    """An image with a cat (8) and two people (15), whose border is void."""
    objects, classes = blank(), blank()
    for value, (label, box) in enumerate({8: (2, 2, 9, 9), 15: (12, 2, 18, 12)}.items(), 1):
        left, top, right, bottom = box
        objects[top - 1 : bottom + 1, left - 1 : right + 1] = 255
        classes[top - 1 : bottom + 1, left - 1 : right + 1] = 255
        objects[top:bottom, left:right], classes[top:bottom, left:right] = value, label
    objects[15:18, 20:25], classes[15:18, 20:25] = 3, 15
    photo(root / "JPEGImages" / "2007_000001.jpg")
    save(root / "SegmentationObject" / "2007_000001.png", objects, palette=True)
    save(root / "SegmentationClass" / "2007_000001.png", classes, palette=True)
    return root


def test_objects_of_cityscapes_have_its_classes_and_groups_are_crowds(tmp_path: Path) -> None:
    images, masks = cityscapes(tmp_path)
    dataset = converted(images, tmp_path / "out", instances=masks, masks=masks, mask_map="cityscapes")
    found = dataset.annotations([0])
    assert [dataset.classes[label] for label in found.labels] == ["person", "person", "car"]
    assert found.crowd.tolist() == [True, False, False]
    assert found.boxes.tolist() == [[22, 2, 28, 5], [2, 4, 20, 9], [8, 6, 14, 12]]
    assert found.area.tolist() == [18, 72, 36]
    assert found.id.tolist() == [24, 24001, 26000]
    assert dataset.category_ids[:3] == (24, 25, 26)
    assert {"boxes", "instances", "segmentation"} <= set(dataset.tasks)


def test_objects_of_voc_take_their_classes_from_the_mask_of_classes(tmp_path: Path) -> None:
    root = voc(tmp_path / "VOC2012")
    classes, objects = root / "SegmentationClass", root / "SegmentationObject"
    dataset = converted(root / "JPEGImages", tmp_path / "out", masks=classes, instances=objects)
    found = dataset.annotations([0])
    assert [dataset.classes[label] for label in found.labels] == ["cat", "person", "person"]
    assert found.boxes.tolist() == [[2, 2, 9, 9], [12, 2, 18, 12], [20, 15, 25, 18]]
    columns = ("image", "boxes", "masks", "to_source", "source_size")
    loader = stoker.ImageLoader(dataset, batch_size=1, columns=columns, transforms=[Resize((2 * H, 2 * W))])
    with loader:
        batch = next(iter(loader))
    whole = masks_to_source(batch.masks[0], batch.to_source[0], batch.source_size[0])
    stored = np.asarray(Image.open(objects / "2007_000001.png"))
    np.testing.assert_array_equal(whole, [stored == value for value in (1, 2, 3)])


def test_values_of_class_and_number_without_names_are_labels(tmp_path: Path) -> None:
    values = blank(np.uint16)
    values[2:5, 2:5], values[8:12, 8:12], values[0, 0] = 1001, 2003, 255
    photo(tmp_path / "images" / "a.jpg")
    save(tmp_path / "objects" / "a.png", values)
    found = converted(tmp_path / "images", tmp_path / "out", instances=tmp_path / "objects").annotations([0])
    assert (found.labels.tolist(), found.id.tolist()) == ([1, 2], [1001, 2003])


def test_run_lengths_are_those_of_pycocotools() -> None:
    coco_mask = pytest.importorskip("pycocotools.mask", reason="pip install pycocotools")
    rng = np.random.default_rng(0)
    values = np.kron(rng.integers(0, 4, (5, 6)), np.ones((4, 5), int)).astype(np.uint16)
    for one in instances_of(values):
        mask = np.asfortranarray(values == one.value, np.uint8)
        encoded = coco_mask.encode(mask)
        assert coco_mask.frPyObjects({"counts": one.runs.tolist(), "size": [H, W]}, H, W) == encoded
        left, top, width, height = coco_mask.toBbox(encoded)
        assert one.box == (left, top, left + width, top + height)
        assert one.area == coco_mask.area(encoded)


Change = Callable[[Path, Path], object]
"""A change of a mask of objects and of its mask of classes, given the paths of both."""


def replaced(suffix: str, values: np.ndarray[Any, Any]) -> Change:
    """Replace the mask of objects by a file with another suffix."""

    def change(objects: Path, classes: Path) -> None:
        objects.unlink()
        save(objects.with_suffix(suffix), values)

    return change


def with_classes(values: np.ndarray[Any, Any]) -> Change:
    return lambda objects, classes: save(classes, values)


def enlarged(objects: Path, classes: Path) -> None:
    for mask in (objects, classes):
        save(mask, np.ones((H + 1, W), np.uint8))


LEFT_OUT = "instance mask that is left out"
CHANGES: dict[str, tuple[Change, str]] = {
    "missing": (lambda objects, classes: objects.unlink(), "image without an instance mask"),
    "cut short": (lambda objects, classes: objects.write_bytes(objects.read_bytes()[:-30]), LEFT_OUT),
    "JPEG": (replaced(".jpg", blank()), LEFT_OUT),
    "floats": (replaced(".tif", blank(np.float32)), LEFT_OUT),
    "colours": (replaced(".png", np.zeros((H, W, 3), np.uint8)), LEFT_OUT),
    "other size": (enlarged, "image of another size than its annotations say"),
    "background": (with_classes(blank()), "object without a class in the class mask"),
    "class beyond the names": (with_classes(blank() + 21), "object of an unknown category"),
}


@pytest.mark.parametrize(("change", "reason"), CHANGES.values(), ids=CHANGES)
def test_a_mask_of_objects_that_cannot_be_used_is_counted(
    tmp_path: Path, change: Change, reason: str
) -> None:
    root = voc(tmp_path / "VOC")
    for folder in ("JPEGImages", "SegmentationClass", "SegmentationObject"):
        file = next((root / folder).iterdir())
        (root / folder / f"2007_000002{file.suffix}").write_bytes(file.read_bytes())
    classes, objects = root / "SegmentationClass", root / "SegmentationObject"
    change(objects / "2007_000002.png", classes / "2007_000002.png")
    summary = stoker.convert(
        root / "JPEGImages",
        tmp_path / "out",
        source_options=stoker.SourceOptions(masks=classes, instances=objects),
        selection=stoker.Selection(allow_loss=1),
    )
    assert reason in summary.skipped, summary.skipped
    assert len(stoker.open(tmp_path / "out").annotations([0])) == 3


def test_masks_of_objects_without_classes_are_refused_with_the_option(tmp_path: Path) -> None:
    root = voc(tmp_path / "VOC")
    with pytest.raises(SourceError, match=r"(?s)not one of 1 masks has an object.*masks"):
        converted(root / "JPEGImages", tmp_path / "out", instances=root / "SegmentationObject")


def test_masks_of_objects_beside_labels_or_mapped_classes_are_refused(tmp_path: Path) -> None:
    root = voc(tmp_path / "VOC")
    classes, objects = root / "SegmentationClass", root / "SegmentationObject"
    with pytest.raises(ConfigError, match="mask_map"):
        converted(root / "JPEGImages", tmp_path / "out", masks=classes, instances=objects, mask_map={1: 0})
    (root / "list.csv").write_text("path,label\nJPEGImages/2007_000001.jpg,a\n")
    with pytest.raises(ConfigError, match="labels of images"):
        converted(root / "list.csv", tmp_path / "out", instances=objects)
