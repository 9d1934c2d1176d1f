"""Datasets converted from image files, and the images that loaders make of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from helpers.data.options import convert_options
from helpers.loaders.flat import image_arguments

import stoker
from stoker import ImageLoader


def convert_images(root: Path, files: Mapping[str, bytes], **options: Any) -> Path:
    """Converts files of one class, which stay in ``root / "images"``, and returns the dataset's folder."""
    folder = root / "images" / "a"
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    stoker.convert(root / "images", root / "shards", **convert_options(options))
    return root / "shards"


def first_images(dataset: Any, transforms: Any, **options: Any) -> np.ndarray[Any, Any]:
    """Returns the images of the first batch that a loader with one thread makes."""
    with ImageLoader(
        dataset, **image_arguments(transforms=transforms, **{"num_threads": 1, **options})
    ) as loader:
        return np.asarray(next(iter(loader)).image)


def all_images(dataset: Any, **options: Any) -> list[np.ndarray[Any, Any]]:
    """Returns the images of each batch of a pass, as signed numbers that can be subtracted."""
    with ImageLoader(dataset, **image_arguments(**{"num_threads": 1, **options})) as loader:
        return [np.asarray(batch.image).astype(int) for batch in loader]
