"""The parameters of batches of images, drawn before the batches are submitted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice, pairwise

import numpy as np

from stoker.augment.geometry.boxes import Objects
from stoker.augment.params import ImageParams
from stoker.errors import ConfigError

from ..order.rank_draws import Schedule
from .columns import ImageColumn
from .config import ImageLoaderConfig
from .planned_batches import PlannedBatch, batches_at_first

DrawnBatch = tuple[PlannedBatch, Sequence[ImageParams]]
"""A batch, and the parameters of its columns of images; none if they are not drawn yet."""

_AT_ONCE = 512  # samples, because NumPy's calls for 64 samples cost about as much


@dataclass(frozen=True)
class ParameterDraws:
    """The draws of an epoch: the parameters of batches, which depend on no pixel."""

    config: ImageLoaderConfig
    epoch: int

    def draw(self, planned: PlannedBatch, column: ImageColumn, objects: Objects | None = None) -> ImageParams:
        """The parameters of a batch's column of images."""
        return self.config.draw(
            column,
            planned.sources,
            planned.samples,
            planned.draw_keys,
            epoch=self.epoch,
            objects=objects,
            size=planned.size,
            parts=planned.parts,
        )

    def drawn(self, batches: Iterable[PlannedBatch], schedule: Schedule) -> Iterator[DrawnBatch]:
        """Yield the batches of a schedule with their parameters, unless these depend on objects.

        The parameters of several batches are drawn together, where that is possible.
        """
        most = _AT_ONCE // schedule.batch_size if self._are_divisible else 1
        batches, count = iter(batches), batches_at_first(schedule)
        while together := list(islice(batches, count)):
            yield from zip(together, self._together(together), strict=True)
            count = max(1, min(2 * count, most))

    @property
    def _are_divisible(self) -> bool:
        return all(column.plan.is_divisible for column in self.config.images)

    def _together(self, batches: Sequence[PlannedBatch]) -> Sequence[Sequence[ImageParams]]:
        columns = self.config.images
        if any(column.annotations.needs_boxes for column in columns):
            return [()] * len(batches)
        try:
            if len(batches) == 1 or not self._are_divisible:
                return [[self.draw(one, column) for column in columns] for one in batches]
            return list(zip(*(self._divided(batches, column) for column in columns), strict=True))
        except ConfigError:  # drawing for the batch itself raises it again
            return [()] * len(batches)

    def _divided(self, batches: Sequence[PlannedBatch], column: ImageColumn) -> Iterator[ImageParams]:
        """Draw the parameters of successive batches of one size at once, and yield those of each batch."""
        for size, group in groupby(batches, key=lambda one: one.size):
            together = list(group)
            height = np.concatenate([one.samples.height for one in together])
            width = np.concatenate([one.samples.width for one in together])
            keys = column.keys(np.concatenate([one.draw_keys for one in together]))
            n, config = len(height), self.config
            shown = column.samples_of_images(n)
            params = column.at(size).draw(height[shown], width[shown], keys, config.draw_seed, self.epoch)
            for first, end in pairwise(np.cumsum([0, *map(len, together)]).tolist()):
                yield params.take(column.images_of(np.arange(first, end), n))
