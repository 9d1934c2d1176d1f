"""Text of a remote dataset: what a cache fetches ahead for a text loader, in the order of its batches."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.formats.dataset.columns import expand_ranges

from ..caching.next_use import STEPS, PlannedDraws
from ..caching.read_ahead import BatchReads, CachedEpoch, CachePrefetcher
from ..order.schedule import PlannedSteps
from .config import TextLoaderConfig

Int64 = npt.NDArray[np.int64]


class CachedText(CachePrefetcher):
    """Fetching of text ahead of one loader; without ``plans`` it fetches single batches."""

    def __init__(self, config: TextLoaderConfig, *, plans: bool = True) -> None:
        super().__init__(config.dataset, planned_draws(config) if plans else None)

    def begin_epoch(self, pipeline: Any, steps: PlannedSteps) -> CachedEpoch:
        """Begin to fetch the batches of these steps."""
        return self.begin(partial(_batch_reads, pipeline, steps))


def planned_draws(config: TextLoaderConfig) -> PlannedDraws:
    """The draws of all epochs, counted by steps."""
    planner = config.planner

    def drawn(epoch: int) -> tuple[Int64, Int64]:
        plan = planner.plan(epoch)
        steps = np.repeat(np.arange(len(plan)), plan.sizes)
        rows = plan.rows[expand_ranges(plan.starts, plan.starts + plan.sizes)].astype(np.int64)
        slices = planner.epoch_of(plan).token_slices(rows)
        if slices.groups is not None:
            steps = np.repeat(steps, np.diff(slices.groups))
        return steps, config.rows[slices.positions]

    return PlannedDraws(STEPS, planner.order.n, drawn)


def _batch_reads(pipeline: Any, steps: PlannedSteps) -> Iterator[BatchReads]:
    """Yield the payloads that each batch reads, or their slices."""
    config, plan = pipeline.config, steps.plan
    epoch, reader = config.planner.epoch_of(plan), config.reader
    earlier = np.zeros(len(config.dataset) if reader.reads_slices else 0, np.bool_)
    for step in range(len(steps)):
        slices = pipeline.slices(epoch, steps, [steps.batch(step)], step)
        rows, moment = config.rows[slices.positions], plan.epoch * STEPS + steps.number(step)
        bounds = None
        if reader.reads_slices:
            bounds = reader.byte_slices(slices, reader.locate(slices.positions), earlier)
            earlier[slices.positions] = True
        yield BatchReads(rows, bounds, moment)
