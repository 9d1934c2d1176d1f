"""YOLO's recipes as published: the visible parts of objects in a mosaic score 1.000 by pycocotools.

An image of several samples has no one source, so the truth is the visible part of each object in the image
itself: its box and mask are cut at the edges of its tile and of the image. The pixels say what is visible.
Draws do not depend on pixels, so the same epoch is loaded with all images black, and with one object white.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import stoker
from stoker.augment import load_recipe

pytest.importorskip("pycocotools", reason="pip install pycocotools")
from helpers.coco_scores import average_precision
from pycocotools import mask as coco_mask

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")
RECIPES = ("yolo-train", "yolo-train-mixup")
HEIGHT, WIDTH = 480, 640
BOXES = [(60 + 30 * n, 40 + 20 * n, 280 + 40 * n, 200 + 30 * n) for n in range(5)]
"""Left, top, right and bottom of the only object of each image."""
LEAST = 40  # pixels of a visible side; the edges of smaller parts are not exact to a twentieth
EPOCHS = 2
SEED = 0
"""In these epochs MixUp shows some objects twice."""


def write(folder: Path, white: int | None) -> stoker.Dataset:
    """The dataset with one object white; None for none."""
    images, annotations = [], []
    folder.mkdir()
    for number, (left, top, right, bottom) in enumerate(BOXES):
        pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
        pixels[top:bottom, left:right] = 255 * (number == white)
        Image.fromarray(pixels).save(folder / f"{number}.png", compress_level=1)
        images.append({"id": number, "file_name": f"{number}.png", "height": HEIGHT, "width": WIDTH})
        box = [left, top, right - left, bottom - top]
        corners = [left, top, right, top, right, bottom, left, bottom]
        middle = [(left + right - 1) / 2, (top + bottom - 1) / 2, 2]
        common = {"id": number, "image_id": number, "category_id": 1, "iscrowd": 0}
        annotations.append(common | {"bbox": box, "segmentation": [corners], "keypoints": middle})
    category = {"id": 1, "name": "thing", "keypoints": ["middle"], "skeleton": []}
    file = {"images": images, "annotations": annotations, "categories": [category]}
    (folder / "x.json").write_text(json.dumps(file))
    stoker.convert(folder / "x.json", folder / "shards")
    return stoker.open(folder / "shards")


@pytest.fixture(scope="module")
def black(tmp_path_factory: pytest.TempPathFactory) -> stoker.Dataset:
    return write(tmp_path_factory.mktemp("mosaics") / "black", None)


@pytest.fixture(scope="module")
def white(tmp_path_factory: pytest.TempPathFactory) -> list[stoker.Dataset]:
    """A dataset for each object, in which it is white."""
    folder = tmp_path_factory.mktemp("mosaics")
    return [write(folder / f"{number}", number) for number in range(len(BOXES))]


def batches(dataset: stoker.Dataset, recipe: str, *columns: str) -> list[Any]:
    options: Any = {"batch_size": len(BOXES), "seed": SEED, "layout": "NCHW"}
    with stoker.ImageLoader(
        dataset, transforms=load_recipe(recipe), columns=("image", *columns), **options
    ) as loader:
        return [batch for _ in range(EPOCHS) for batch in loader]


def seen(black: Any, white: Any) -> Any:
    """The pixels of the object that is white in one of two images, (H, W) bool."""
    change = np.abs(white - black).sum(axis=0)
    return (change > 0.05) & (change > 0.3 * change.max())


def as_coco(image: int, number: int, box: Any, mask: Any, keypoint: Any) -> dict[str, Any]:
    """An object in COCO's format; without a keypoint it counts for boxes and masks alone."""
    left, top, right, bottom = map(float, box)
    return {
        "image_id": image,
        "category_id": number + 1,
        "score": 1.0,
        "bbox": [left, top, right - left, bottom - top],
        "area": (right - left) * (bottom - top),
        "iscrowd": 0,
        "segmentation": coco_mask.encode(np.asfortranarray(mask, np.uint8)),
        "keypoints": [0, 0, 0] if keypoint is None else [*map(float, keypoint), 2],
        "num_keypoints": int(keypoint is not None),
    }


def visible(mask: Any, image: int, number: int) -> dict[str, Any] | None:
    """The object that these pixels show; None where they are a sliver.

    Its keypoint, in the middle of its box, is known if all of the box is seen.
    """
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if len(rows) < LEAST or len(columns) < LEAST:
        return None
    box = np.array([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1])
    (width, height), (left, top, right, bottom) = box[2:] - box[:2], BOXES[number]
    whole = abs(width * (bottom - top) / (height * (right - left)) - 1) < 0.03
    middle = (box[:2] + box[2:] - 1) / 2
    return as_coco(image, number, box, mask, middle if whole else None)


def score(truth: list[dict[str, Any]], found: list[dict[str, Any]], kind: str) -> str:
    objects = [{**shown, "id": n} for n, shown in enumerate(truth, 1)]
    images = [{"id": n, "height": 640, "width": 640} for n in {shown["image_id"] for shown in truth}]
    classes = [{"id": n + 1, "keypoints": ["middle"]} for n in range(len(BOXES))]
    document = {"images": images, "annotations": objects, "categories": classes}
    return f"{average_precision(document, found, kind):.3f}"


@pytest.mark.parametrize("recipe", RECIPES)
def test_what_a_mosaic_shows_of_each_object_scores_one(
    black: stoker.Dataset, white: list[stoker.Dataset], recipe: str
) -> None:
    """An object that MixUp shows twice counts as one object, with all of its pixels."""
    expected: dict[tuple[int, int], dict[str, Any]] = {}
    plain = batches(black, recipe, "boxes", "masks", "keypoints", "object_id")
    backgrounds = [pixels for batch in plain for pixels in batch.image]
    for number, dataset in enumerate(white):
        images = [pixels for batch in batches(dataset, recipe) for pixels in batch.image]
        for image, (before, after) in enumerate(zip(backgrounds, images, strict=True)):
            if (shown := visible(seen(before, after), image, number)) is not None:
                expected[image, number] = shown
    found = []
    for image, (batch, i) in enumerate((batch, i) for batch in plain for i in range(len(BOXES))):
        for number in np.unique(batch.object_id[i]).tolist():
            same = np.flatnonzero(batch.object_id[i] == number)
            boxes, masks = batch.boxes[i][same], batch.masks[i][same].any(axis=0)
            box = np.concatenate((boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)))
            if (box[2:] - box[:2]).min() < LEAST:
                continue
            known = expected.get((image, number), {}).get("num_keypoints") and len(same) == 1
            keypoint = batch.keypoints[i][same[0], 0, :2] - 0.5 if known else None
            found.append(as_coco(image, number, box, masks, keypoint))
    truth = list(expected.values())
    whole = [shown for shown in found if shown["num_keypoints"]]
    assert 2 < len(whole) < len(found)
    twice = [len(set(ids.tolist())) < len(ids) for batch in plain for ids in batch.object_id]
    assert any(twice) == ("mixup" in recipe)
    scores = {kind: score(truth, found, kind) for kind in ("bbox", "segm")}
    assert scores | {"keypoints": score(truth, whole, "keypoints")} == dict.fromkeys(
        ("bbox", "segm", "keypoints"), "1.000"
    )
