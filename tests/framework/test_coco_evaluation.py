"""COCO's protocol by pycocotools: what a loader shows of the annotations, brought back, scores 1.000."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

import stoker
from stoker.augment import Pad, RandomHorizontalFlip, Resize, keypoints_to_source, masks_to_source, to_source

pytest.importorskip("pycocotools")
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

EXAMPLES = Path(__file__).parents[2] / "examples"
COLUMNS = ("image", "boxes", "box_labels", "keypoints", "masks", "to_source", "source_size", "image_id")


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """Average precision of the ground truth, brought back; one of the photographs lies on its side."""
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
    stoker.convert(folder / "objects.json", folder / "shards", images=folder)
    with contextlib.redirect_stdout(io.StringIO()):
        found = predictions(folder / "shards", sorted(one["id"] for one in truth["categories"]))
        reference = COCO(folder / "objects.json")
        return {kind: average_precision(reference, found, kind) for kind in ("bbox", "segm", "keypoints")}


def predictions(shards: Path, categories: list[int]) -> list[dict[str, Any]]:
    """The annotations as COCO takes predictions, from pixels of a mirrored, padded and enlarged output."""
    transforms = [Resize(640, max_size=900), Pad(30), RandomHorizontalFlip(1.0), Resize((960, 1100))]
    swap = stoker.open(shards).manifest.annotations.swap
    found = []
    for batch in stoker.ImageLoader(shards, batch_size=1, transforms=transforms, columns=COLUMNS):
        matrix, size = batch.to_source[0], batch.source_size[0]
        boxes = to_source(batch.boxes[0], matrix, size=size)
        points = keypoints_to_source(batch.keypoints[0], matrix, swap=swap)
        masks = masks_to_source(batch.masks[0], matrix, size)
        for k, (left, top, right, bottom) in enumerate(boxes.tolist()):
            found.append(
                {
                    "image_id": int(batch.image_id[0]),
                    "category_id": categories[batch.box_labels[0][k]],
                    "score": 1.0,
                    "bbox": [left, top, right - left, bottom - top],
                    "segmentation": coco_mask.encode(np.asfortranarray(masks[k])),
                    "keypoints": points[k].ravel().tolist(),
                }
            )
    return found


def average_precision(reference: Any, found: list[dict[str, Any]], kind: str) -> float:
    parts = {"bbox": "bbox", "segm": "segmentation", "keypoints": "keypoints"}
    common = ("image_id", "category_id", "score", parts[kind])
    detected = reference.loadRes([{name: one[name] for name in common} for one in found])
    evaluation = COCOeval(reference, detected, kind)
    evaluation.params.kpt_oks_sigmas = np.full(3, 0.025)
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return float(evaluation.stats[0])


@pytest.mark.parametrize("kind", ["bbox", "segm", "keypoints"])
def test_ground_truth_brought_back_scores_one(scores: dict[str, float], kind: str) -> None:
    assert f"{scores[kind]:.3f}" == "1.000"
