"""A small file of COCO's annotations with its images, and datasets that are made of changed copies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from helpers.data.options import convert_options
from PIL import Image

import stoker
from stoker.formats.dataset.annotations import runs_of_mask

NAMES = ["nose", "left_eye", "right_eye"]
CATEGORIES = [
    {"id": 90, "name": "zebra"},
    {"id": 3, "name": "ape", "keypoints": NAMES, "skeleton": [[1, 2], [1, 3]]},
    {"id": 7, "name": "mouse"},
]


def rle(mask: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Uncompressed run lengths of a mask."""
    return {"size": list(mask.shape), "counts": runs_of_mask(mask).tolist()}


def document() -> dict[str, Any]:
    """Three images; objects in polygons, in run lengths of both kinds, and with keypoints."""
    mask = np.zeros((20, 30), bool)
    mask[4:9, 10:13] = True
    square = [1.5, 1.0, 6.5, 1.0, 6.5, 4.0, 1.5, 4.0]
    polygon = {"bbox": [1.5, 1.0, 5.0, 3.0], "segmentation": [square, [0, 0, 1, 0, 0, 1]], "area": 12.25}
    crowd = {"bbox": [10, 4, 3, 5], "segmentation": rle(mask), "area": 15, "iscrowd": 1}
    person = {"bbox": [2, 3, 10, 10], "keypoints": [4, 5, 2, 6, 5, 1, 0, 0, 0], "num_keypoints": 2}
    compressed = {"bbox": [0, 0, 3, 4], "segmentation": {"size": [4, 3], "counts": "444"}, "area": 4}
    return {
        "info": {"year": 2026},
        "annotations": [
            {"id": 21, "image_id": 8, "category_id": 3, **person},
            {"id": 20, "image_id": 5, "category_id": 90, "iscrowd": 0, **polygon},
            {"id": 7, "image_id": 8, "category_id": 7, **crowd},
            {"id": 99, "image_id": 1, "category_id": 7, **compressed},
        ],
        "images": [
            {"id": 8, "file_name": "b.png", "height": 20, "width": 30},
            {"id": 5, "file_name": "a.png", "height": 20, "width": 30},
            {"id": 1, "file_name": "tiny.png", "height": 4, "width": 3},
            {"id": 2, "file_name": "empty.png", "height": 20, "width": 30},
        ],
        "categories": CATEGORIES,
    }


def write(folder: Path, content: dict[str, Any]) -> Path:
    path = folder / "instances.json"
    path.write_text(json.dumps(content))
    return path


def convert(folder: Path, content: dict[str, Any], name: str = "out", **options: Any) -> stoker.Dataset:
    options = {"allow_loss": 1, **options}  # tests look at the skipped parts
    stoker.convert(
        write(folder, content), folder / name, **convert_options({"images": folder / "images", **options})
    )
    return stoker.open(folder / name)


def left_out(dataset: stoker.Dataset) -> set[tuple[str, str, str]]:
    lines = (dataset.path / "skipped.jsonl").read_text().splitlines()
    return {tuple(json.loads(line).values()) for line in lines}  # type: ignore[misc]  # of three


def write_images(folder: Path) -> None:
    """Write the images of :func:`document`."""
    images = folder / "images"
    images.mkdir()
    for image in document()["images"]:
        Image.new("RGB", (image["width"], image["height"]), (90, 40, 10)).save(images / image["file_name"])
