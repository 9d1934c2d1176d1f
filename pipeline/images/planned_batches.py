"""Which samples form each batch of images, and what their random numbers are keyed by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from stoker.formats.dataset.samples import Samples

    from ..order.schedule import Schedule
    from .config import ImageLoaderConfig

__all__ = ["PlannedBatch", "planned_batches"]

# Positions whose order is worked out at once: its cost is that of a NumPy call, not of a position.
_ORDER_CHUNK = 4096


@dataclass(frozen=True)
class PlannedBatch:
    """The samples of a batch.

    Attributes:
        positions: (N,) int64, in the dataset.
        mask: (N,) bool, False for padding.
        samples: Where their payloads lie; ``row`` is the row in the index.
        draw_keys: (N,) int64, the keys of their random numbers.
    """

    positions: npt.NDArray[np.int64]
    mask: npt.NDArray[np.bool_]
    samples: Samples
    draw_keys: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.positions)


def planned_batches(config: ImageLoaderConfig, schedule: Schedule, epoch: int) -> Iterator[PlannedBatch]:
    """The batches of a pass, in order; each is worked out when it is asked for, some together.

    Args:
        config: What a batch is.
        schedule: The draws of each step, of this rank.
        epoch: Of the pass.
    """
    first, steps = 0, 1  # the first batch is not kept waiting
    while first < len(schedule):
        parts = [schedule.draws(step) for step in range(first, min(first + steps, len(schedule)))]
        first, steps = first + steps, max(1, min(2 * steps, _ORDER_CHUNK // schedule.batch_size))
        drawn = config.order.positions(epoch, np.concatenate([draws for draws, _ in parts]))
        ends = np.cumsum([len(draws) for draws, _ in parts])
        for (draws, mask), positions in zip(parts, np.split(drawn, ends[:-1]), strict=True):
            samples = config.dataset.samples(positions)
            yield PlannedBatch(positions, mask, samples, config.draw_keys(epoch, draws, samples.row))
