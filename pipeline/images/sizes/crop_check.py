"""The check that no crop is larger than an image, which a loader makes before it meets that image."""

from __future__ import annotations

import numpy as np

from stoker.augment.transforms.geometry.pad import RandomCrop
from stoker.formats.dataset.dataset import Dataset

from ...order.sampling import Sampler
from ..config import ImageLoaderConfig

__all__ = ["check_crops"]


def check_crops(config: ImageLoaderConfig, sampler: Sampler | None) -> None:
    """Refuse crops larger than the lowest or the narrowest image, before an epoch meets that image.

    A loader with a sampler is not checked: its sampler may never draw small images.
    """
    if sampler is not None:
        return
    dataset = config.dataset
    for column in config.images:
        crops = (one for one in column.plan.transforms if isinstance(one, RandomCrop))
        # A mixture may draw nothing from a dataset.
        if isinstance(dataset, Dataset) and any(not crop.pad_if_needed for crop in crops):
            smallest = [int(dataset.column(name).argmin()) for name in ("height", "width")]
            positions = np.array(smallest, np.int64)
            samples = dataset.samples(positions)
            config.draw(column, positions, samples, samples.row, epoch=0)
