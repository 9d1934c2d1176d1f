"""COCO's JSON: every annotation becomes an object, or is named as skipped."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mutations import as_text, mutate_document
from targets.listings import IMAGES, check_listing, write_images

from stoker.formats.sources.coco import list_coco
from stoker.formats.sources.options import SourceOptions
from stoker.formats.sources.source import Source

_ANNOTATION = {"image_id": 7, "category_id": 3, "bbox": [1, 2, 8, 6.5], "area": 40.0, "iscrowd": 0}
_DOCUMENT: dict[str, Any] = {
    "info": {"year": 2017},
    "images": [
        {"id": number, "file_name": name, "height": 12, "width": 16}
        for number, name in enumerate(IMAGES, start=7)
    ],
    "annotations": [
        {**_ANNOTATION, "id": 1, "segmentation": [[1, 2, 9, 2, 9, 8.5], [1, 2, 3, 4, 5, 6, 7, 8]]},
        {**_ANNOTATION, "id": 2, "iscrowd": 1, "segmentation": {"size": [12, 16], "counts": [30, 60, 102]}},
        {**_ANNOTATION, "id": 5.0, "category_id": "3", "attributes": {"rotation": 30.0, "occluded": False}},
        {**_ANNOTATION, "id": 6, "segmentation": [[]], "bbox": [-3, 2, 40, 6]},
        {**_ANNOTATION, "id": 3, "image_id": 8, "segmentation": {"size": [12, 16], "counts": "P6"}},
        {
            **_ANNOTATION,
            "id": 4,
            "category_id": 5,
            "keypoints": [1, 2, 2, 3, 4, 1, 0, 0, 0],
            "num_keypoints": 2,
        },
    ],
    "categories": [
        {"id": 3, "name": "cat"},
        {
            "id": 5,
            "name": "man",
            "keypoints": ["nose", "left_eye", "right_eye"],
            "skeleton": [[1, 2], [1, 3]],
        },
    ],
}


def make(scratch: Path) -> Callable[[np.random.Generator], bool]:
    """Attack with annotations of two images; accepted if they can be listed and have an object."""
    write_images(scratch / "images")
    file = scratch / "instances.json"

    def attack(rng: np.random.Generator) -> bool:
        data = as_text(mutate_document(_DOCUMENT, rng), rng)
        file.write_bytes(data)
        listing = list_coco(Source(file, SourceOptions(images=scratch / "images")))
        # An image that is missing takes its objects with it.
        return check_listing(listing, "annotation ", count(data) if len(listing) == len(IMAGES) else 0)

    return attack


def count(data: bytes) -> int:
    """Return the number of annotations; 0 if they are not a list, or if there are two lists."""
    members: list[tuple[str, Any]] = []
    try:
        json.loads(data, object_pairs_hook=lambda pairs: members.extend(pairs) or dict(pairs))
    except ValueError:
        return 0
    lists = [value for name, value in members if name == "annotations"]
    return len(lists[0]) if len(lists) == 1 and isinstance(lists[0], list) else 0
