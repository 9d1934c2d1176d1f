"""COCO's protocol by pycocotools: annotations of a loader, brought back to the source, score 1.000."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

import stoker
from stoker.augment import (
    Letterbox,
    Pad,
    RandomHorizontalFlip,
    Resize,
    keypoints_to_source,
    load_recipe,
    masks_to_source,
    to_source,
)

pytest.importorskip("pycocotools")
from helpers.coco_scores import average_precision
from pycocotools import mask as coco_mask

EXAMPLES = Path(__file__).parents[3] / "examples"
COLUMNS = ("image", "boxes", "box_labels", "keypoints", "masks", "to_source", "source_size", "image_id")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of photographs, one on its side, and ``objects.json``."""
    folder = tmp_path_factory.mktemp("coco")
    truth = json.loads((EXAMPLES / "objects.json").read_text())
    for number, image in enumerate(truth["images"]):
        photo = Image.open(EXAMPLES / "photos" / "train" / image["file_name"])
        exif = Image.Exif()
        if number == 2:
            photo, exif[0x0112] = photo.transpose(Image.Transpose.ROTATE_90), 6
        image["file_name"] = f"{number}.jpg"
        photo.save(folder / image["file_name"], exif=exif, quality=90)
        assert ImageOps.exif_transpose(Image.open(folder / image["file_name"])).size == (
            image["width"],
            image["height"],
        )
    (folder / "objects.json").write_text(json.dumps(truth))
    return folder


def scores(source: Path, transforms: Any, kinds: tuple[str, ...], resize: str | None) -> dict[str, str]:
    """The scores of the ground truth that a loader of a resized conversion shows, brought back."""
    shards = source / str(resize).replace("=", "-")
    if not shards.exists():
        stoker.convert(
            source / "objects.json", shards, resize=resize, source_options=stoker.SourceOptions(images=source)
        )
    found = predictions(shards, transforms, with_masks="segm" in kinds)
    truth = json.loads((source / "objects.json").read_text())
    return {kind: f"{average_precision(truth, found, kind):.3f}" for kind in kinds}


def predictions(shards: Path, transforms: Any, *, with_masks: bool) -> list[dict[str, Any]]:
    """The annotations that a loader shows, as COCO takes predictions."""
    dataset = stoker.open(shards)
    swap, categories = dataset.manifest.annotations.swap, dataset.category_ids
    found = []
    columns = COLUMNS if with_masks else tuple(name for name in COLUMNS if name != "masks")
    for batch in stoker.ImageLoader(dataset, batch_size=1, transforms=transforms, columns=columns):
        matrix, size = batch.to_source[0], batch.source_size[0]
        boxes = to_source(batch.boxes[0], matrix, size=size)
        points = keypoints_to_source(batch.keypoints[0], matrix, swap=swap, coco=True)
        masks = masks_to_source(batch.masks[0], matrix, size) if with_masks else None
        for k, (left, top, right, bottom) in enumerate(boxes.tolist()):
            found.append(
                {
                    "image_id": int(batch.image_id[0]),
                    "category_id": categories[batch.box_labels[0][k]],
                    "score": 1.0,
                    "bbox": [left, top, right - left, bottom - top],
                    "segmentation": None if masks is None else coco_mask.encode(np.asfortranarray(masks[k])),
                    "keypoints": points[k].ravel().tolist(),
                }
            )
    return found


def test_ground_truth_scores_one_in_the_pixels_of_the_source(source: Path) -> None:
    """The output is mirrored, padded and enlarged."""
    transforms = [Resize(640, max_size=900), Pad(30), RandomHorizontalFlip(1.0), Resize((960, 1100))]
    kinds = ("bbox", "segm", "keypoints")
    assert scores(source, transforms, kinds, None) == dict.fromkeys(kinds, "1.000")


@pytest.mark.parametrize("resize", ["shorter=300", "fill=320x480"])
@pytest.mark.parametrize("recipe", ["coco-val", "coco-hflip", "coco-multiscale", "letterbox"])
def test_ground_truth_of_a_resized_conversion_scores_one(source: Path, recipe: str, resize: str) -> None:
    """Only recipes that crop nothing show whole objects."""
    transforms = [Letterbox(640)] if recipe == "letterbox" else load_recipe(recipe)
    kinds = ("bbox", "keypoints")
    assert scores(source, transforms, kinds, resize) == dict.fromkeys(kinds, "1.000")
