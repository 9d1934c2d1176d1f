"""Loaders of small images whose batches name their samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers.loaders.flat import image_arguments

from stoker import ImageLoader
from stoker.augment import Resize


def load_rows(folder: Path, engine: str = "native", **options: Any) -> ImageLoader:
    """Returns a loader of five images of 16 x 16 a batch, with their rows, keys and records."""
    options = {"batch_size": 5, "columns": ("image", "row", "key", "record"), "num_threads": 2, **options}
    return ImageLoader(folder, **image_arguments(transforms=[Resize((16, 16))], engine=engine, **options))
