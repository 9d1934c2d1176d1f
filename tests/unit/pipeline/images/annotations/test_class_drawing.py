"""Class masks that a loader draws from the polygons and run lengths of objects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data.annotations.coco_files import rle
from PIL import Image

import stoker
from stoker.augment import ElasticTransform, Mosaic, Pad, RandomHorizontalFlip, RandomRotation, Resize
from stoker.errors import ConfigError

HEIGHT, WIDTH = 20, 30
# Left, top, right, bottom and category of each object, in the order of the file; the last is a crowd.
OBJECTS = [(2, 2, 12, 12, 5), (8, 4, 20, 10, 9), (3, 3, 5, 5, 5), (1, 15, 6, 18, 9), (22, 10, 30, 20, 5)]
WHOLE = [Resize((HEIGHT, WIDTH))]


def write(folder: Path, objects: Any = OBJECTS, names: int = 2) -> Path:
    """A conversion of two images; the second has no objects."""
    folder.mkdir(exist_ok=True)
    for name in ("a.png", "b.png"):
        Image.new("RGB", (WIDTH, HEIGHT)).save(folder / name)
    annotations = []
    for number, (left, top, right, bottom, category) in enumerate(objects):
        mask = np.zeros((HEIGHT, WIDTH), bool)
        mask[top:bottom, left:right] = True
        crowd = number == 4
        polygon = [[left, top, right, top, right, bottom, left, bottom]]
        annotations.append(
            {
                "id": number,
                "image_id": 1,
                "category_id": category,
                "bbox": [left, top, right - left, bottom - top],
                "segmentation": rle(mask) if crowd else polygon,
                "iscrowd": int(crowd),
            }
        )
    images = [
        {"id": 1 + number, "file_name": name, "height": HEIGHT, "width": WIDTH}
        for number, name in enumerate(("a.png", "b.png"))
    ]
    categories = [{"id": 5, "name": "ape"}, {"id": 9, "name": "bee"}]
    categories += [{"id": 100 + extra, "name": f"class {extra}"} for extra in range(names - 2)]
    truth = {"images": images, "annotations": annotations, "categories": categories}
    (folder / "objects.json").write_text(json.dumps(truth))
    stoker.convert(folder / "objects.json", folder / "shards", images=folder)
    return folder / "shards"


@pytest.fixture(scope="module")
def coco(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("classes"))


def drawn(source: Any, transforms: Any = WHOLE, **options: Any) -> Any:
    """The class masks of both images, (2, H, W)."""
    arguments = {"batch_size": 2, "columns": ("image", "segmentation"), **options}
    with stoker.ImageLoader(source, transforms=transforms, **arguments) as loader:
        return next(iter(loader)).segmentation


def expected() -> np.ndarray[Any, Any]:
    """The rule of torchvision's ConvertCocoPolysToMask, crowds ignored."""
    values, covered = np.zeros((2, 2, HEIGHT, WIDTH), int)
    for left, top, right, bottom, category in OBJECTS:
        at = np.s_[0, top:bottom, left:right]
        values[at] = np.maximum(values[at], {5: 1, 9: 2}[category])
        covered[at] += 1
    values[covered > 1] = 255
    values[0, 10:20, 22:30] = 255
    return values


def test_a_pixel_has_the_class_of_the_only_object_that_covers_it(coco: Path) -> None:
    masks = drawn(coco)
    assert masks.dtype == np.uint8
    assert np.array_equal(masks, expected())
    assert set(np.unique(masks)) == {0, 1, 2, 255}
    assert np.array_equal(drawn(coco, engine="reference"), masks)


def test_drawn_masks_follow_transforms_as_stored_masks_do(coco: Path, tmp_path: Path) -> None:
    with stoker.Writer(tmp_path / "stored") as writer:
        for number, mask in enumerate(expected()):
            image = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
            writer.write(image, key=str(number), segmentation=mask.astype(np.uint8))
    for transform in (
        RandomHorizontalFlip(1.0),
        RandomRotation((90, 90)),
        Pad(4),
        Pad(4, padding_mode="reflect"),
        ElasticTransform(30.0, 3.0),
        Mosaic(),
    ):
        masks = drawn(coco, [*WHOLE, transform])
        assert not np.array_equal(masks, expected()), transform
        assert np.array_equal(masks, drawn(tmp_path / "stored", [*WHOLE, transform])), transform


def test_drawn_masks_are_padded_with_the_value_to_ignore(coco: Path) -> None:
    padded = drawn(coco, [], sizes="padded", pad_to_multiple_of=32)
    assert padded.shape == (2, 32, 32)
    assert np.array_equal(padded[:, :HEIGHT, :WIDTH], expected())
    assert (padded[:, HEIGHT:] == 255).all()


def test_objects_that_a_selection_leaves_out_are_background(coco: Path) -> None:
    masks = drawn(stoker.open(coco).select(objects="not crowd and area >= 10"))
    assert (masks[0, 10:20, 22:30] == 0).all()
    assert (masks[0, 3:5, 3:5] == 1).all()


def test_min_size_drops_boxes_and_leaves_class_masks(coco: Path) -> None:
    assert np.array_equal(drawn(coco, min_size=100), expected())


def test_more_classes_than_bytes_hold_are_int64_and_ignore_65535(tmp_path: Path) -> None:
    masks = drawn(write(tmp_path / "many", names=255))
    assert masks.dtype == np.int64
    assert np.array_equal(np.where(masks == 65535, 255, masks), expected())


def test_boxes_alone_have_no_class_masks(tmp_path: Path) -> None:
    with stoker.Writer(tmp_path / "boxes", classes=["ape"]) as writer:
        writer.write(np.zeros((8, 8, 3), np.uint8), boxes=[[1, 1, 4, 4]], box_labels=[0])
    with pytest.raises(ConfigError, match="there is no 'segmentation'"):
        drawn(tmp_path / "boxes")
