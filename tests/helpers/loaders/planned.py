"""Loaders that plan batches from the sizes in the index, and the plans of batches."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from stoker import ImageLoader
from stoker.pipeline.images.planned_batches import PlannedBatch, planned_batches


def planned(loader: ImageLoader, epoch: int = 0) -> list[PlannedBatch]:
    """Returns the plan of each batch of an epoch: no column has the samples that a mosaic shows."""
    return list(planned_batches(loader.pipeline.config, loader.steps(epoch, 0), epoch))


def stop_and_resume(
    make: Callable[..., ImageLoader], stop: int, ranks: int, epoch: int = 0
) -> tuple[list[list[Any]], list[list[Any]]]:
    """The batches of an epoch on two ranks, and those of its rest after ``stop`` steps on some ranks.

    Args:
        make: Makes the loader of a rank.
        stop: Steps before the state is saved.
        ranks: Ranks that load the state.
        epoch: Number of the epoch.

    Returns:
        A list of batches for each rank, all those of the epoch; and the same of its rest.
    """
    loaders = [make(rank=rank, world_size=2) for rank in range(2)]
    for loader in loaders:
        loader.set_epoch(epoch)
    state, whole = loaders[0].state_dict(), []
    for step, batches in enumerate(zip(*loaders, strict=True), 1):
        whole.append(batches)
        if step == stop:
            state = loaders[0].state_dict()
    resumed = [make(rank=rank, world_size=ranks) for rank in range(ranks)]
    for loader in resumed:
        loader.load_state_dict(json.loads(json.dumps(state)))
    return [list(run) for run in zip(*whole, strict=True)], [list(loader) for loader in resumed]
