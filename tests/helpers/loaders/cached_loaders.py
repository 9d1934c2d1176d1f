"""Loaders of small photographs, here or through a cache."""

from __future__ import annotations

from typing import Any

from helpers.loaders.flat import image_arguments

import stoker
from stoker.augment import CenterCrop, Resize


def loader(dataset: Any, **options: Any) -> stoker.ImageLoader:
    arguments: dict[str, Any] = {
        "batch_size": 8,
        "shuffle": True,
        "seed": 3,
        "transforms": [Resize(32), CenterCrop(32)],
        "columns": ("image", "label", "row"),
        "engine": "native",
        "num_threads": 1,
        **options,
    }
    return stoker.ImageLoader(dataset, **image_arguments(**arguments))


def received(loading: stoker.ImageLoader) -> list[tuple[list[int], bytes]]:
    """Returns the rows and the pixels of each batch of a pass."""
    return [(batch.row.tolist(), batch.image.tobytes()) for batch in loading]
