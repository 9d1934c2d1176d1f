"""Pictures of the samples of a batch, as the training received them, for the sheet of a replay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..images.config import ImageLoaderConfig
from ..images.sizes.patches.patches import Patches
from ..preview.batch_pictures import images_of_patches, picture_of
from ..preview.pictures import Picture
from .drawn import DrawnSample

__all__ = ["draw_samples"]


def draw_samples(
    config: ImageLoaderConfig, batch: Any, samples: Sequence[DrawnSample]
) -> list[tuple[Picture, ...]]:
    """Return the pictures of each sample: one, or all of its views in all columns of images.

    Args:
        config: Config of the loader.
        batch: The batch, arrays of NumPy.
        samples: What was drawn for its N samples.
    """
    if isinstance(config.size_plan.given, Patches):
        images = images_of_patches(batch, config.size_plan.given.size)
        return [
            (picture_of(config, batch, i, images[i], key=one.key, said=(*one.words, "")[0]),)
            for i, one in enumerate(samples)
        ]
    found = []
    for i, sample in enumerate(samples):
        pictures: list[Picture] = []
        for column in config.images:
            if column.name not in config.columns:
                continue
            values = getattr(batch, column.name)
            for view in [None] if column.views is None else range(column.views):
                image = values[i] if view is None else values[view][i]
                said = sample.words[len(pictures)] if len(pictures) < len(sample.words) else ""
                key = sample.key if not pictures else None
                pictures.append(
                    picture_of(config, batch, i, image, column=column, view=view, key=key, said=said)
                )
        found.append(tuple(pictures))
    return found
