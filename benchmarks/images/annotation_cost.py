"""The cost of annotations: the rate with boxes, keypoints and masks beside that of images alone.

    python -m stoker.benchmarks.images.annotation_cost [--source DIR | --dataset PATH] [--json FILE]

Photographs get synthetic objects with a box, keypoints and a polygon of a dozen vertices each, and a mask of
classes. Images are 320 x 320 pixels, in batches of 16. All loads take turns in one run; results are medians.
CPU time depends less on other load of the machine.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

import stoker
from stoker.augment import RandomHorizontalFlip, Resize, ToDtype
from stoker.formats.dataset.manifest import MANIFEST_NAME

from ..comparison.photographs import photographs_in, replicate
from ..measuring import Cost, costs_in_turns, loading, make_parser, show_costs, write_costs

_COPIES = 512
_OBJECTS = 7
_KEYPOINTS = 17
_VERTICES = 12
_BATCH, _SIZE = 16, 320
_BOXES = ("boxes", "box_labels")
_LOADS: Mapping[str, tuple[str, ...]] = {
    "images only": (),
    "+ boxes": _BOXES,
    "+ keypoints": (*_BOXES, "keypoints"),
    "+ masks": (*_BOXES, "masks"),
    "+ segmentation": ("segmentation",),
}


def make_annotated(source: Path, target: Path, copies: int = _COPIES, *, restarts: bool = False) -> Path:
    """Return ``target``; make a dataset of annotated photographs there if it is missing."""
    if (target / MANIFEST_NAME).exists():
        return target
    scratch = target.with_name(f"{target.name}-source")
    shutil.rmtree(scratch, ignore_errors=True)
    replicate(source, scratch / "images", copies)
    rng = np.random.default_rng(0)
    document: dict[str, Any] = {"images": [], "annotations": [], "categories": _categories()}
    for number, path in enumerate(photographs_in(scratch / "images")):
        key = path.relative_to(scratch / "images")
        with Image.open(path) as image:
            width, height = image.size
        document["images"].append({"id": number, "file_name": str(key), "width": width, "height": height})
        objects = [_object(rng, width, height) for _ in range(rng.integers(1, 2 * _OBJECTS))]
        document["annotations"] += [
            {"id": len(document["annotations"]) + i, "image_id": number, **one}
            for i, one in enumerate(objects)
        ]
        _draw_mask(scratch / "masks" / key.with_suffix(".png"), (width, height), objects)
    (scratch / "objects.json").write_text(json.dumps(document))
    stoker.convert(
        scratch / "objects.json",
        target,
        seed=0,
        overwrite=True,
        source_options=stoker.SourceOptions(images=scratch / "images", masks=scratch / "masks"),
        storage=stoker.ImageStorage(restarts=restarts),
    )
    shutil.rmtree(scratch)
    return target


def _categories() -> list[dict[str, Any]]:
    names = [f"point {k}" for k in range(_KEYPOINTS)]
    return [{"id": 1, "name": "thing", "keypoints": names, "skeleton": []}]


def _object(rng: np.random.Generator, width: int, height: int) -> dict[str, Any]:
    """Return a random ellipse in an image as an object of COCO, without its numbers."""
    extent = rng.uniform(0.1, 0.5, 2) * (width, height)
    low = rng.uniform(0, (width, height) - extent)
    angle = np.linspace(0, 2 * np.pi, _VERTICES, endpoint=False)
    outline = low + extent * (1 + np.stack((np.cos(angle), np.sin(angle)), axis=1)) / 2
    points = np.column_stack((rng.uniform(low, low + extent, (_KEYPOINTS, 2)), np.full(_KEYPOINTS, 2)))
    return {
        "category_id": 1,
        "iscrowd": 0,
        "bbox": [*low.tolist(), *extent.tolist()],
        "area": float(extent.prod() * np.pi / 4),
        "segmentation": [outline.ravel().tolist()],
        "keypoints": points.ravel().tolist(),
        "num_keypoints": _KEYPOINTS,
    }


def _draw_mask(path: Path, size: tuple[int, int], objects: list[dict[str, Any]]) -> None:
    mask = Image.new("L", size)
    for number, one in enumerate(objects):
        ImageDraw.Draw(mask).polygon(one["segmentation"][0], fill=1 + number)
    path.parent.mkdir(parents=True, exist_ok=True)
    mask.save(path)


def measure(dataset: Path, rounds: int) -> dict[str, Cost]:
    """Return the median costs of an image, by the annotations that come with it."""
    transforms = [RandomHorizontalFlip(), Resize((_SIZE, _SIZE)), ToDtype("float32")]
    turns = {
        name: loading(dataset, transforms, _BATCH, columns=("image", *columns, "row"))
        for name, columns in _LOADS.items()
    }
    return costs_in_turns(turns, rounds)


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__, "source", "work", "json", rounds=7)
    parser.add_argument("--dataset", type=Path, help="dataset with objects and masks, instead of --source")
    args = parser.parse_args()
    costs = measure(args.dataset or make_annotated(args.source, args.work / "objects"), args.rounds)
    show_costs(costs, "Images with annotations")
    write_costs(args.json, costs)


if __name__ == "__main__":
    main()
