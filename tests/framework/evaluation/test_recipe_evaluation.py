"""Ground truth of every kind of source, through every recipe and back, scores 1.000 by pycocotools.

A recipe that crops shows parts of the source, so the truth is what each image shows: objects are cut at the
edges of the visible part, and a batch must not have objects that lie outside of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.annotations import BOXES, CLASSES, FOLDERS, SIZES, truth
from helpers.options import convert_options
from helpers.transforms import OF_ONE_SAMPLE

import stoker
from stoker.augment import (
    Letterbox,
    RandomIoUCrop,
    keypoints_to_source,
    load_recipe,
    masks_to_source,
    to_source,
)

pytest.importorskip("pycocotools", reason="pip install pycocotools")
from helpers.coco_scores import FIELDS, average_precision
from pycocotools import mask as coco_mask

HIDING = {
    *("ade20k-train", "coco-lsj", "coco-segmentation", "coco-ssd", "coco-ssdlite"),
    *("deit3-train", "imagenet-train"),
}
"""Recipes whose crops leave objects out in these epochs."""
pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


class Shown:
    """Truth and predictions for each draw of an image.

    Attributes:
        truth: The visible objects of each draw, as the contents of a file of COCO's annotations.
        found: The objects of batches, brought back to the source, as COCO takes predictions.
        hidden: Objects that draws do not show.
        mask_shift: The largest shift of a side of a mask, as a share of its bound.
    """

    def __init__(self, dataset: stoker.Dataset) -> None:
        self.truth: dict[str, Any] = {**truth(), "images": [], "annotations": []}
        self.found: list[dict[str, Any]] = []
        self.hidden = 0
        self.mask_shift = 0.0
        self._dataset = dataset

    def add(self, batch: Any, objects: list[dict[str, Any]], image: int) -> None:
        """Add a batch of one image, and the objects that it should show."""
        number, (height, width) = len(self.truth["images"]) + 1, SIZES[image]
        known = len(self.truth["annotations"])
        self.truth["images"].append({"id": number, "height": height, "width": width})
        self.truth["annotations"] += [
            annotation | {"id": known + k, "image_id": number} for k, annotation in enumerate(objects, 1)
        ]
        found = self._brought_back(batch, number)
        assert len(found) == len(objects), "only objects outside of the visible part are left out"
        self.found += found
        for prediction, annotation in zip(found, objects, strict=True):
            if "segmentation" in prediction:
                moved = np.abs(edges(prediction["segmentation"]) - edges(annotation["segmentation"])).max()
                self.mask_shift = max(self.mask_shift, moved / mask_bound(batch.to_source[0]))

    def _brought_back(self, batch: Any, number: int) -> list[dict[str, Any]]:
        """The objects of a batch of one image, as predictions for the image of this number."""
        matrix, size = batch.to_source[0], batch.source_size[0]
        found: list[dict[str, Any]] = []
        boxes = to_source(batch.boxes[0], matrix, size=size).tolist()
        for (left, top, right, bottom), label in zip(boxes, batch.box_labels[0], strict=True):
            category = CLASSES.index(self._dataset.classes[label]) + 1
            box = [left, top, right - left, bottom - top]
            found.append({"image_id": number, "category_id": category, "score": 1.0, "bbox": box})
        if "keypoints" in batch._fields:
            swap = self._dataset.manifest.annotations.swap
            points = keypoints_to_source(batch.keypoints[0], matrix, swap=swap, coco=True)
            for prediction, point in zip(found, points, strict=True):
                prediction["keypoints"] = point.ravel().tolist()
        if "masks" in batch._fields:
            masks = masks_to_source(batch.masks[0], matrix, size)
            for prediction, mask in zip(found, masks, strict=True):
                prediction["segmentation"] = coco_mask.encode(np.asfortranarray(mask))
        return found

    def score(self, kind: str) -> float:
        """Average precision of this kind."""
        # COCO counts no object without a labelled keypoint: a prediction of it would count as wrong.
        found = [shown for shown in self.found if kind != "keypoints" or any(shown["keypoints"][2::3])]
        return average_precision(self.truth, found, kind)


def seen_part(dataset: Any, image: int, matrix: Any, output: tuple[int, int]) -> Any:
    """Left, top, right, bottom of the part of the source that an output shows; an image may store a part."""
    shown = to_source([[0, 0, output[1], output[0]]], matrix)[0]
    stored, origins = dataset.samples([image]), dataset.origins([image])
    whole = [[0, 0, int(stored.width[0]), int(stored.height[0])]]
    low, high = np.split(to_source(whole, origins.matrices[0], size=origins.sizes[0])[0], 2)
    return np.concatenate((np.maximum(shown[:2], low), np.minimum(shown[2:], high)))


def expected(part: Any, image: int, labels: tuple[int, ...], *, by_center: bool) -> list[dict[str, Any]]:
    """The objects of these classes in an image, cut at the visible part; those outside of it are left out."""
    left, top, right, bottom = part
    kept = []
    for annotation in truth()["annotations"]:
        x, y, width, height = annotation["bbox"]
        box = np.clip([x, y, x + width, y + height], [left, top] * 2, [right, bottom] * 2)
        center = (x + width / 2, y + height / 2)
        outside = not (left <= center[0] <= right and top <= center[1] <= bottom)
        if annotation["category_id"] - 1 not in labels:
            continue
        if annotation["image_id"] != image + 1 or (box[2:] <= box[:2]).any() or (by_center and outside):
            continue
        points = np.array(annotation["keypoints"], float).reshape(2, 3)
        points[((points[:, :2] + 0.5 < part[:2]) | (points[:, :2] + 0.5 > part[2:])).any(axis=1)] = 0
        mask = np.zeros(SIZES[image], bool)
        mask[y : y + height, x : x + width] = True
        rows, columns = np.indices(SIZES[image]) + 0.5
        mask &= (columns > left) & (columns < right) & (rows > top) & (rows < bottom)
        kept.append(
            annotation
            | {
                "bbox": [*box[:2].tolist(), *(box[2:] - box[:2]).tolist()],
                "keypoints": points.ravel().tolist(),
                "num_keypoints": int((points[:, 2] > 0).sum()),
                "segmentation": coco_mask.encode(np.asfortranarray(mask, np.uint8)),
            }
        )
    return kept


def edges(mask: Any) -> Any:
    left, top, width, height = coco_mask.toBbox(mask)
    return np.array((left, top, left + width, top + height))


def mask_bound(matrix: Any) -> float:
    """Pixels of the source by which a side of a mask may move: one of the output and half one of its own."""
    return float(np.abs(matrix[[0, 1], [0, 1]]).max()) + 0.5


def show(
    shards: Path,
    transforms: Any,
    *,
    has_keypoints: bool,
    has_masks: bool,
    epochs: int = 2,
    labels: tuple[int, ...] = (0, 1),
) -> Shown:
    """Draw all images in some epochs, and bring their annotations back to the source."""
    dataset = stoker.open(shards)
    shown = Shown(dataset)
    by_center = any(isinstance(transform, RandomIoUCrop) for transform in transforms)
    columns = ["image", "row", "boxes", "box_labels", "to_source", "source_size"]
    columns += ["keypoints"] * has_keypoints + ["masks"] * has_masks
    loader = stoker.ImageLoader(
        dataset, batch_size=1, transforms=transforms, columns=columns, layout="NCHW", seed=3, num_threads=1
    )
    with loader:
        for batch in itertools.chain.from_iterable(loader for _ in range(epochs)):
            image = int(batch.row[0])
            part = seen_part(dataset, image, batch.to_source[0], batch.image.shape[-2:])
            objects = expected(part, image, labels, by_center=by_center)
            shown.hidden += sum(label in labels for label, _ in BOXES[image]) - len(objects)
            shown.add(batch, objects, image)
    return shown


@pytest.fixture(scope="module")
def coco(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scene of the COCO file, converted."""
    folder = tmp_path_factory.mktemp("scene")
    source = FOLDERS["coco"](folder / "source")
    stoker.convert(source.src, folder / "shards", **convert_options(source.options))
    return folder / "shards"


def formatted(shown: Shown, kinds: Iterable[str]) -> dict[str, str]:
    return {kind: f"{shown.score(kind):.3f}" for kind in kinds}


@pytest.mark.parametrize("recipe", [*OF_ONE_SAMPLE, "letterbox"])
def test_ground_truth_scores_one_through_every_recipe_and_back(coco: Path, recipe: str) -> None:
    transforms = [Letterbox(320)] if recipe == "letterbox" else load_recipe(recipe)
    epochs = 3 if recipe in HIDING else 1
    shown = show(coco, transforms, has_keypoints=True, has_masks=True, epochs=epochs)
    assert (shown.hidden > 0) == (recipe in HIDING)
    assert shown.mask_shift <= 1
    # Large scale jitter shrinks an image to a tenth: masks of such objects are exact to their bound alone.
    kinds = [kind for kind in FIELDS if recipe != "coco-lsj" or kind != "segm"]
    assert formatted(shown, kinds) == dict.fromkeys(kinds, "1.000")


@pytest.mark.parametrize("kind", FOLDERS)
def test_ground_truth_of_every_kind_of_folder_scores_one(kind: str, tmp_path: Path) -> None:
    """Through a recipe with crops."""
    source = FOLDERS[kind](tmp_path / "source")
    datasets = stoker.convert(source.src, tmp_path / "shards", **convert_options(source.options)).datasets
    (shards,) = datasets.values()
    tasks = stoker.open(shards).tasks
    tasks_of = {"bbox": "boxes", "segm": "instances", "keypoints": "keypoints"}
    kinds = [name for name, task in tasks_of.items() if task in tasks]
    shown = show(
        shards,
        load_recipe("coco-ssd"),
        has_keypoints="keypoints" in kinds,
        has_masks="segm" in kinds,
        labels=source.labels,
    )
    assert shown.hidden
    assert formatted(shown, kinds) == dict.fromkeys(kinds, "1.000")


@pytest.mark.parametrize("resize", ["crop=64x72", "fill=100x90"])
def test_ground_truth_of_resized_conversions_scores_one(resize: str, tmp_path: Path) -> None:
    """With ``crop=`` the stored image is a crop itself, and does not show all objects."""
    source = FOLDERS["coco"](tmp_path / "source")
    stoker.convert(source.src, tmp_path / "shards", resize=resize, **convert_options(source.options))
    shown = show(tmp_path / "shards", load_recipe("coco-ssd"), has_keypoints=True, has_masks=False)
    assert formatted(shown, ("bbox", "keypoints")) == {"bbox": "1.000", "keypoints": "1.000"}
