"""The samples of each batch of images, and the keys of their random numbers, in the order of an epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from stoker.formats.dataset.reading.samples import Samples
    from stoker.types import Size

    from ..order.rank_draws import Schedule
    from .config import ImageLoaderConfig

__all__ = ["PlannedBatch", "planned_batches"]

# Draws that are ordered at once: a few calls of NumPy cost as much for one draw as for thousands.
_ORDER_CHUNK = 4096


@dataclass(frozen=True)
class PlannedBatch:
    """The samples of a batch.

    Attributes:
        positions: (N,) int64, positions of the samples in the dataset.
        mask: (N,) bool, False for samples that fill up the batch.
        samples: Rows of the index, which say where the payloads lie.
        draw_keys: (N,) int64, the keys of their random numbers.
        size: Height and width of the images, pixels; None for those that the transforms leave.
        groups: (rows + 1,) int64, first sample of each packed row, and N; None without packing.
    """

    positions: npt.NDArray[np.int64]
    mask: npt.NDArray[np.bool_]
    samples: Samples
    draw_keys: npt.NDArray[np.int64]
    size: Size | None = None
    groups: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.positions)


def planned_batches(config: ImageLoaderConfig, schedule: Schedule, epoch: int) -> Iterator[PlannedBatch]:
    """Yield the batches of an epoch, in order.

    Args:
        config: Config of the loader.
        schedule: This rank's draws at each step.
        epoch: Number of the epoch.
    """
    first, steps = 0, 1  # the first batch alone, so that it comes soon
    while first < len(schedule):
        own = range(first, min(first + steps, len(schedule)))
        parts = [(*schedule.draws(step), schedule.size(step), schedule.groups(step)) for step in own]
        first, steps = first + steps, max(1, min(2 * steps, _ORDER_CHUNK // schedule.batch_size))
        drawn = config.order.positions(epoch, np.concatenate([draws for draws, *_ in parts]))
        ends = np.cumsum([len(draws) for draws, *_ in parts])
        for (draws, mask, size, groups), positions in zip(parts, np.split(drawn, ends[:-1]), strict=True):
            samples = config.dataset.samples(positions)
            keys = config.draw_keys(epoch, draws, samples.row)
            yield PlannedBatch(positions, mask, samples, keys, size, groups)
