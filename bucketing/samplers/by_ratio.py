"""The batch sampler of images that are padded: those of a batch have similar aspect ratios."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

from .batch_sampler import BatchSampler, Draw
from .groups import cut_buckets

if TYPE_CHECKING:
    from .groups import Groups

__all__ = ["RatioGroupSampler", "ratio_groups"]


def ratio_groups(sizes: npt.NDArray[np.int64], factor: int | None) -> npt.NDArray[np.int64]:
    """The group of each image, (N,), by ascending width over height.

    These are the groups of ``aspect_ratio_group_factor`` in torchvision's references for detection: 0 divides
    upright images from the others; k has 2k + 1 bounds from 1/2 to 2, at equal distances of the logarithm.

    Args:
        sizes: (N, 2), heights and widths.
        factor: From 0; None for one group.
    """
    if factor is None:
        return np.zeros(len(sizes), np.int64)
    bounds = 2 ** np.linspace(-1, 1, 2 * factor + 1) if factor else np.ones(1)
    return np.searchsorted(bounds, sizes[:, 1] / sizes[:, 0], side="right").astype(np.int64)


@dataclass(frozen=True, eq=False)
class RatioGroupSampler(BatchSampler):
    """Batches of images of one group of aspect ratios; ``lengths`` are (N, 2), heights and widths.

    Images that fill no batch of their group move on to the next one, which is a little wider.

    Attributes:
        factor: See :func:`ratio_groups`.
        batch_size: Samples of a full batch on one rank.
    """

    factor: int | None
    batch_size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_size < 1 or (self.factor or 0) < 0:
            raise ConfigError(
                f"batch_size must be from 1 and factor from 0, found {self.batch_size} and {self.factor}"
            )

    @cached_property
    def _group(self) -> npt.NDArray[np.uint16]:
        return ratio_groups(self.lengths, self.factor).astype(np.uint16)

    def cut(self, draw: Draw) -> Groups:
        """See :meth:`BatchSampler.cut`."""
        groups = self._group[draw.rows]
        counts = np.bincount(groups, minlength=2 * (self.factor or 0) + 2)
        sizes = np.full(len(counts), self.batch_size)
        return cut_buckets(self.ordered(draw, groups), counts, sizes, draw.world_size, self.last_batch)

    def padded(self, groups: Groups) -> npt.NDArray[np.int64]:
        """See :meth:`BatchSampler.padded`: the largest heights and widths of stored images."""
        return self.group_maxima(groups)
