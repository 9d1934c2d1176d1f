"""Sizes that differ between batches on every engine: the pixels of the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.loaders import image_arguments

from stoker import ImageLoader, RandomSizes
from stoker.augment import (
    ColorJitter,
    RandomErasing,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomShortestSize,
)

TRANSFORMS = [RandomResizedCrop(64, scale=(0.4, 1)), RandomHorizontalFlip(), ColorJitter(0.4, 0.4)]
KEPT = [RandomShortestSize((60, 90)), RandomHorizontalFlip(), ColorJitter(0.4, 0.4), RandomErasing(0.5)]


def images(dataset: Path, sizes: Any, engine: str) -> list[Any]:
    """The images of two batches of each of two epochs."""
    transforms = KEPT if sizes == "padded" else TRANSFORMS
    options = {"batch_size": 8, "transforms": transforms, "num_threads": 2, "exact": True, "sizes": sizes}
    made = []
    with ImageLoader(dataset, **image_arguments(engine=engine, **options)) as loader:
        for _ in range(2):
            made += [batch.image for batch, _ in zip(loader, range(2), strict=False)]
            loader.set_epoch(1)
    return made


@pytest.mark.parametrize(
    ("engine", "sizes"),
    [
        ("native", {0: 40, 1: (48, 32)}),
        ("native", RandomSizes(32, 48, step=16, every=1)),
        ("native", "padded"),
        ("dali", {0: 40, 1: (48, 32)}),
    ],
)
def test_images_of_every_size_are_near_the_reference(dataset: Path, engine: str, sizes: Any) -> None:
    if engine == "dali":
        pytest.importorskip("nvidia.dali")
    batches = [images(dataset, sizes, name) for name in (engine, "reference")]
    assert len({batch.shape for batch in batches[1]}) >= 2
    for found, expected in zip(*batches, strict=True):
        assert found.shape == expected.shape
        difference = np.abs(found.astype(int) - expected.astype(int))
        assert difference.max() <= (2 if engine == "native" else 255)
        assert difference.mean() < (0.05 if engine == "native" else 1.5)
