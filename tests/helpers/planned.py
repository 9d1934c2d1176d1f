"""The plans of a loader's batches, which say what each image shows."""

from __future__ import annotations

from stoker import ImageLoader
from stoker.pipeline.images.planned_batches import PlannedBatch, planned_batches


def planned(loader: ImageLoader, epoch: int = 0) -> list[PlannedBatch]:
    """Returns the plan of each batch of an epoch: no column has the samples that a mosaic shows."""
    return list(planned_batches(loader._config, loader._schedule(epoch, 0), epoch))
