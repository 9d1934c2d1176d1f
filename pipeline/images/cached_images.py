"""Images of a remote dataset: what a cache fetches ahead for an image loader, in the order of its batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from ..caching.next_use import PlannedDraws, draws_of_order
from ..caching.read_ahead import BatchReads, CachedEpoch, CachePrefetcher
from ..execution.ranks import Process
from ..order.schedule import Schedule
from .config import ImageLoaderConfig
from .planned_batches import planned_batches

Int64 = npt.NDArray[np.int64]


class CachedImages(CachePrefetcher):
    """Fetching of images ahead of one loader."""

    def __init__(self, config: ImageLoaderConfig, process: Process) -> None:
        super().__init__(config.dataset, planned_draws(config, process))

    def begin_epoch(self, config: ImageLoaderConfig, steps: Schedule, epoch: int) -> CachedEpoch:
        """Begin to fetch the batches of these steps, by a separate plan that runs far ahead of the engine."""
        return self.begin(partial(batch_reads, config, steps, epoch))


def planned_draws(config: ImageLoaderConfig, ranks: Process) -> PlannedDraws:
    """The draws of all epochs; those of planners are counted by steps."""
    order, plan, dataset = config.order, config.size_plan, config.dataset
    if plan.planner is None:
        return draws_of_order(order, dataset)

    def drawn(epoch: int) -> tuple[Int64, Int64]:
        steps, positions = [], []
        for rank in range(ranks.world_size):
            schedule = plan.steps(order.n, replace(ranks, rank=rank), "partial", epoch=epoch, start=0)
            draws = [schedule.draws(step)[0] for step in range(len(schedule))]
            steps.append(np.repeat(np.arange(len(schedule)), [len(one) for one in draws]))
            positions += draws
        return np.concatenate(steps), dataset.rows[np.concatenate(positions)]

    return PlannedDraws(order.n, order.n, drawn)


def batch_reads(config: ImageLoaderConfig, schedule: Schedule, epoch: int) -> Iterator[BatchReads]:
    """Yield what each batch of an epoch reads; see :func:`planned_batches`."""
    for step, planned in enumerate(planned_batches(config, schedule, epoch)):
        last = epoch * schedule.n + schedule.consumed(step + 1) - 1
        yield BatchReads(planned.samples.row, None, last)
