"""Datasets, states and a recipe of the release that is imported, for tests/package/test_releases.py.

    PYTHONPATH=src:tests python -m helpers.data.releases tests/data/releases/0.1.0

Run it once, with the release itself, and keep its files unchanged. It uses only public names.
"""

from __future__ import annotations

import hashlib
import json
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from helpers.data.options import writer_options
from PIL import Image

import stoker
from stoker.augment import Normalize, RandomCrop, RandomHorizontalFlip, load_recipe, save_recipe

TRANSFORMS = [RandomCrop((12, 16)), RandomHorizontalFlip(), Normalize()]
IMAGES = {"batch_size": 3, "shuffle": True, "seed": 5, "ranks": stoker.Ranks(0, 1), "last_batch": "drop"}
TEXTS = {"batch_size": 2, "shuffle": True, "seed": 5, "ranks": stoker.Ranks(0, 1)}
COLUMNS = ["image", "label", "row"]
OBJECTS = ["image", "boxes", "box_labels", "keypoints", "masks", "segmentation", "score", "caption", "depth"]
IDS = ["input_ids", "attention_mask", "labels", "row"]
PACKED = ["input_ids", "segment_ids"]
LOADERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "images": ("ImageLoader", "images", {**IMAGES, "columns": COLUMNS}),
    "images-lmdb": ("ImageLoader", "images-lmdb", {**IMAGES, "columns": COLUMNS}),
    "objects": ("ImageLoader", "objects", {**IMAGES, "columns": OBJECTS, "objects": "padded"}),
    "texts": ("TextLoader", "texts", {**TEXTS, "buckets": [4, 8], "columns": IDS}),
    "texts-packed": ("TextLoader", "texts", {**TEXTS, "pack": 16, "columns": PACKED}),
}


def picture(number: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(number).integers(0, 256, (16, 20, 3), np.uint8)


def write_images(folder: Path) -> None:
    """Photographs of two classes: PNG, JPEG, and JPEG with restart markers."""
    source = folder / "source"
    for number in range(8):
        path = source / ("cat", "dog")[number % 2] / f"{number}.{('png', 'jpg')[number % 4 > 1]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture(number)).save(path)
    stoker.convert(source, folder / "images", seed=1, storage=stoker.ImageStorage(shards=2, restarts=True))
    stoker.convert(source, folder / "images-lmdb", seed=1, container="lmdb")
    for path in sorted(source.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    source.rmdir()


def write_objects(folder: Path) -> None:
    """Samples with objects, masks, and columns of numbers, texts and arrays, in two versions of a dataset."""
    names = ["cat", "dog"]
    for append in (False, True):
        options = {"append": True} if append else {"classes": names}
        with stoker.Writer(folder / "objects", **writer_options(options)) as writer:
            for number in range(4):
                writer.write(
                    picture(number),
                    key=f"{append:d}{number}",
                    boxes=[[2, 3, 9, 11], [0, 0, 6, 6]][: 1 + number % 2],
                    box_labels=names[: 1 + number % 2],
                    keypoints=[[[4, 5, 2], [7, 9, 1]], [[1, 1, 2], [0, 0, 0]]][: 1 + number % 2],
                    masks=[[[2, 3, 9, 3, 9, 11]], np.eye(16, 20) > 0][: 1 + number % 2],
                    segmentation=(picture(number)[..., 0] > 128).astype(np.uint8),
                    score=number / 4,
                    caption=f"picture {number}",
                    depth=np.full((2, 2), number, np.float32),
                )


def digest(batch: Any) -> str:
    """Returns a digest of the columns of a batch: dtypes, shapes and values."""
    found = hashlib.sha256()
    for column in batch:
        values = np.asarray(column)
        found.update(f"{values.dtype} {values.shape} ".encode() + np.ascontiguousarray(values).tobytes())
    return found.hexdigest()[:16]


def make_loader(folder: Path, name: str) -> Any:
    """Returns a loader of :data:`LOADERS`, of a release's folder."""
    kind, dataset, options = LOADERS[name]
    if kind == "ImageLoader":
        options = {**options, "transforms": load_recipe(folder / "recipe.json")}
    return getattr(stoker, kind)(folder / dataset, **options)


def main(folder: Path) -> None:
    """Writes the datasets, a recipe, and for each loader a state and digests of the batches that follow."""
    folder.mkdir(parents=True)
    write_images(folder)
    write_objects(folder)
    with stoker.TextWriter(folder / "texts", tokenizer="bytes") as writer:
        for number in range(9):
            writer.write("abcdefgh"[: 2 + number % 7])
    save_recipe(TRANSFORMS, folder / "recipe.json")
    kept = {}
    for name in LOADERS:
        with make_loader(folder, name) as loader:
            batches = iter(loader)
            next(batches)
            state = loader.state_dict()
            following = [digest(batch) for batch in [*batches, *islice(loader, 1)]]
            kept[name] = {"state": state, "batches": following}
    (folder / "loaders.json").write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
