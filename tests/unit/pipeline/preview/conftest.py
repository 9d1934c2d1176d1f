"""Datasets of the tests of previews."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

import stoker

HEIGHT, WIDTH = 90, 120


@pytest.fixture(scope="module")
def coco(tmp_path_factory):
    """Make six images with a bright box, outlined by a polygon or by run lengths, and two keypoints."""
    folder = tmp_path_factory.mktemp("coco")
    images, annotations = [], []
    for i in range(6):
        left, top = 10 + 8 * i, 5 + 6 * i
        pixels = np.full((HEIGHT, WIDTH, 3), 40, np.uint8)
        pixels[top : top + 30, left : left + 40] = 250
        Image.fromarray(pixels).save(folder / f"{i}.png")
        images.append({"id": i, "file_name": f"{i}.png", "height": HEIGHT, "width": WIDTH})
        polygon = [left, top, left + 40, top, left + 40, top + 30, left, top + 30]
        runs = {"size": [HEIGHT, WIDTH], "counts": [left * HEIGHT + top]}
        runs["counts"] += [30, HEIGHT - 30] * 39 + [30]
        runs["counts"].append(HEIGHT * WIDTH - sum(runs["counts"]))
        annotations.append(
            {
                "id": i,
                "image_id": i,
                "category_id": 1 + i % 2,
                "bbox": [left, top, 40, 30],
                "area": 1200,
                "iscrowd": i % 2,
                "segmentation": runs if i % 2 else [polygon],
                "keypoints": [left + 5, top + 5, 2, left + 34, top + 24, 1],
                "num_keypoints": 2,
            }
        )
    names = {"keypoints": ["left_end", "right_end"], "skeleton": [[1, 2]]}
    categories = [{"id": 1, "name": "cup & <saucer>", **names}, {"id": 2, "name": "plate", **names}]
    document = {"images": images, "annotations": annotations, "categories": categories}
    (folder / "instances.json").write_text(json.dumps(document))
    stoker.convert(folder / "instances.json", folder / "shards")
    return folder / "shards"


@pytest.fixture(scope="module")
def segmented(tmp_path_factory):
    """Make two images with masks of classes: 1 in the left half, 2 in the right half, 255 in a frame."""
    folder = tmp_path_factory.mktemp("segmented")
    mask = np.full((60, 80), 255, np.uint8)
    mask[5:-5, 5:40], mask[5:-5, 40:-5] = 1, 2
    for kind, content in (("images", np.repeat(mask[..., None], 3, axis=-1)), ("masks", mask)):
        (folder / kind).mkdir()
        for name in ("a.png", "b.png"):
            Image.fromarray(content).save(folder / kind / name)
    stoker.convert(
        folder / "images",
        folder / "shards",
        source_options=stoker.SourceOptions(source_format="pairs", masks=folder / "masks"),
    )
    return folder / "shards"
