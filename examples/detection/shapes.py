"""Images of discs, squares and arrows with boxes, masks and keypoints, for the examples of detection."""

import json
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

import stoker

CLASSES, POINTS = ("disc", "square", "arrow"), ("tip", "left_corner", "right_corner")  # points of arrows


def corners(kind: str, angle: float, radius: float) -> np.ndarray:
    """The corners of a shape around (0, 0). An arrow has its tip first, then the corners beside it."""
    turns = {"disc": np.arange(24) / 24, "square": np.arange(4) / 4, "arrow": np.array([0, 0.61, 0.39])}[kind]
    around = angle + 2 * np.pi * turns
    return radius * np.stack((np.cos(around), np.sin(around)), axis=1)


def write_shapes(folder: str | Path, images: int, seed: int = 0) -> Path:
    """Write images with one to three shapes each, and return their file in COCO's format."""
    rng, folder = np.random.default_rng(seed), Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    common = {"supercategory": "shape", "keypoints": POINTS, "skeleton": [[1, 2], [1, 3]]}
    file = {"images": [], "annotations": [], "categories": []}
    file["categories"] = [{"id": n, "name": name, **common} for n, name in enumerate(CLASSES, 1)]
    for number in range(1, images + 1):
        width, height = rng.integers(96, 129, 2).tolist()
        grey = rng.integers(0, 100, (4, 4, 3), np.uint8)  # a dark background
        image = Image.fromarray(grey).resize((width, height), Image.Resampling.BICUBIC)
        taken: list[np.ndarray] = []
        for _ in range(rng.integers(1, 4)):
            radius, angle = rng.uniform(12, 24), rng.uniform(0, 2 * np.pi)
            center = rng.uniform((radius, radius), (width - radius, height - radius))
            if any(np.hypot(*(center - other[:2])) < radius + other[2] for other in taken):
                continue
            taken.append(np.array([*center, radius]))
            category = int(rng.integers(3))
            outline = center + corners(CLASSES[category], angle, radius)
            ImageDraw.Draw(image).polygon(outline.ravel().tolist(), tuple(rng.integers(110, 256, 3).tolist()))
            x, y = outline.T
            points = [v for px, py in outline for v in (px - 0.5, py - 0.5, 2)] if category == 2 else [0] * 9
            shape = {"id": len(file["annotations"]) + 1, "image_id": number, "category_id": category + 1}
            shape |= {"bbox": [*outline.min(0), *np.ptp(outline, axis=0)], "iscrowd": 0, "keypoints": points}
            shape |= {"segmentation": [outline.ravel().tolist()], "num_keypoints": 3 * (category == 2)}
            shape["area"] = abs(x @ np.roll(y, 1) - y @ np.roll(x, 1)) / 2
            file["annotations"].append(shape)
        image.save(folder / f"{number}.jpg", quality=90)
        file["images"].append({"id": number, "file_name": f"{number}.jpg", "width": width, "height": height})
    (folder / "instances.json").write_text(json.dumps(file))
    return folder / "instances.json"


def convert_shapes(shards: str, images: int = 300) -> tuple[stoker.Dataset, stoker.Dataset, Path]:
    """Return a dataset to train on, another one to validate on, and the COCO file of the latter."""
    files = write_shapes(f"{shards}/train-files", images), write_shapes(f"{shards}/val-files", 60, seed=1)
    for file, name in zip(files, ("train", "val"), strict=True):
        stoker.convert(file, f"{shards}/{name}", overwrite=True)
    return stoker.open(f"{shards}/train"), stoker.open(f"{shards}/val"), files[1]
