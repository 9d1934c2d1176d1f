"""A dataset whose images match their boxes, keypoints and masks, and loaders of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from helpers.data.pictures import png
from helpers.loaders.flat import image_arguments

from stoker import ImageLoader
from stoker._native import crc32c
from stoker.augment import Resize
from stoker.formats.dataset.annotations import AnnotationInfo, Annotations, to_columns
from stoker.formats.dataset.manifest import MANIFEST_NAME
from stoker.formats.open import open as open_dataset

HEIGHT, WIDTH = 60, 80
N = 7
COLUMNS = ("image", "boxes", "box_labels", "crowd", "area", "object_id", "keypoints", "masks", "segmentation")


@dataclass(frozen=True)
class Scene:
    """A black image with a rectangle of level 200, its first object. Other objects lie in the dark."""

    boxes: np.ndarray[Any, Any]

    def pixels(self) -> np.ndarray[Any, Any]:
        pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
        left, top, right, bottom = self.boxes[0].astype(int)
        pixels[top:bottom, left:right] = 200
        return pixels

    def mask(self) -> np.ndarray[Any, Any]:
        return (self.pixels()[..., 0] // 200).astype(np.uint8)


def scenes() -> list[Scene]:
    """Sample i has i % 3 + 1 objects; the rectangle is the first."""
    rng = np.random.default_rng(3)
    drawn = []
    for i in range(N):
        low = rng.integers([10, 8], [30, 25], (i % 3 + 1, 2))
        drawn.append(Scene(np.concatenate((low, low + rng.integers(20, 30, low.shape)), axis=1)))
    return drawn


def polygon(box: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return box[[[0, 1], [2, 1], [2, 3], [0, 3]]].astype(np.float32)


def annotations(number: int, scene: Scene) -> Annotations:
    m = len(scene.boxes)
    boxes = scene.boxes.astype(np.float32)
    points = np.stack((boxes[:, :2] + 6, boxes[:, 2:] - 6), axis=1)
    return Annotations(
        owner=np.zeros(m, np.int64),
        boxes=boxes,
        labels=np.arange(m) + number % 2,
        crowd=np.arange(m) == 1,
        area=np.prod(boxes[:, 2:] - boxes[:, :2], axis=1),
        id=100 * number + np.arange(m),
        keypoints=np.concatenate((points, np.full((m, 2, 1), 2)), axis=2).astype(np.float32),
        polygons=[[polygon(box)] for box in scene.boxes],
        extra={"difficult": np.arange(m) % 2},
    )


def write_annotated(
    pack_images: Callable[..., Path], masks: list[bytes] | None = None, **columns: Any
) -> Path:
    """The folder of the annotated dataset, with these masks of classes and these other columns."""
    drawn = scenes()
    images = [png(scene.pixels()) for scene in drawn]
    masks = masks or [png(scene.mask()) for scene in drawn]
    plain = open_dataset(pack_images(images)).index
    headers = {name: plain.column(name) for name in ("codec", "height", "width", "orientation")}
    payloads = [image + mask for image, mask in zip(images, masks, strict=True)]
    both = open_dataset(pack_images(payloads, **headers)).index
    lengths = np.array([len(mask) for mask in masks])
    index = {name: plain.column(name) for name in ("length", "crc")}
    index |= {"offset": both.column("offset"), "mask_offset": both.column("offset") + index["length"]}
    index |= {"mask_length": lengths, "mask_crc": np.array([crc32c(mask) for mask in masks])}
    index |= headers | to_columns([annotations(i, scene) for i, scene in enumerate(drawn)])
    index |= {"label": [[i % 3, (i + 1) % 3] if i else [] for i in range(N)]}
    folder = pack_images(payloads, **(index | columns))
    manifest = open_dataset(folder).manifest
    info = AnnotationInfo(keypoints=("start", "end"), swap=(1, 0), ignore=255)
    (folder / MANIFEST_NAME).write_text(replace(manifest, annotations=info).to_json())
    return folder


def load(folder: Path, **options: Any) -> ImageLoader:
    arguments = {"batch_size": N, "columns": COLUMNS, "num_threads": 2, "transforms": [Resize((30, 40))]}
    return ImageLoader(folder, **image_arguments(**(arguments | options)))


def first(folder: Path, **options: Any) -> Any:
    with load(folder, **options) as loader:
        return next(iter(loader))


def bounding_box(bright: np.ndarray[Any, Any]) -> list[int]:
    """The box around the true pixels: left, top, right, bottom."""
    rows, columns = np.flatnonzero(bright.any(axis=1)), np.flatnonzero(bright.any(axis=0))
    return [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
