"""The same images with and without restart markers, and batches of them, for tests of engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from helpers.data.pictures import exif
from PIL import Image

import stoker
from stoker.augment import compile_image
from stoker.formats.dataset.dataset import Dataset
from stoker.pipeline.engines.base import Work

COUNT = 6
TURNED, PNG = 2, 4
"""Rows of the image with an EXIF orientation, and of the image that is no JPEG."""


def convert_marked(folder: Path) -> dict[bool, Dataset]:
    """Convert six images without restart markers (False) and with them (True)."""
    (folder / "source" / "one").mkdir(parents=True)
    for number in range(COUNT):
        noise = np.random.default_rng(number).integers(0, 256, (80, 100, 3), np.uint8)
        image = Image.fromarray(noise).resize((300, 230 + number), Image.Resampling.BICUBIC)
        suffix = "png" if number == PNG else "jpg"
        options: dict[str, Any] = {
            "exif": exif(6 if number == TURNED else 1),
            "subsampling": number % 3,
            "quality": 97,
        }
        image.save(folder / "source" / "one" / f"{number}.{suffix}", **({} if number == PNG else options))
    datasets = {}
    for restarts in (False, True):
        stoker.convert(
            folder / "source", folder / str(restarts), storage=stoker.ImageStorage(restarts=restarts)
        )
        datasets[restarts] = stoker.open(folder / str(restarts))
    return datasets


def work_of(dataset: Dataset, transforms: Any, seed: int) -> Work:
    """Return a batch of all samples."""
    samples = dataset.samples(np.arange(len(dataset)))
    plan = compile_image(transforms)
    return Work(samples, plan.draw(samples.height, samples.width, np.arange(len(samples)), seed, 0))
