"""Batch samplers of images: all images of a batch have one shape, or similar aspect ratios."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

from ..boundaries.aspect_shapes import nearest_shapes
from .batch_sampler import BatchSampler, Draw
from .groups import cut_buckets

if TYPE_CHECKING:
    from .groups import Groups


@dataclass(frozen=True, eq=False)
class ShapeBucketSampler(BatchSampler):
    """Batches of images of one shape each; ``lengths`` are (N, 2), the heights and widths of the images.

    Images that fill no batch of their shape move on to the next shape, which is a little higher and narrower.
    """

    shapes: npt.NDArray[np.int64]  # (K, 2) int64, heights and widths, by ascending height over width
    # (K,) int64, the number of samples in a full batch of each shape on one rank
    batch_sizes: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_sizes.min() < 1 or len(self.batch_sizes) != len(self.shapes):
            raise ConfigError(f"batch_sizes must be {len(self.shapes)} numbers from 1")

    @cached_property
    def _bucket(self) -> npt.NDArray[np.uint16]:
        return nearest_shapes(self.lengths, self.shapes).astype(np.uint16)

    def cut(self, draw: Draw) -> Groups:
        """See :meth:`BatchSampler.cut`."""
        buckets = self._bucket[draw.rows]
        counts = np.bincount(buckets, minlength=len(self.shapes))
        rows = self.ordered(draw, buckets)
        return cut_buckets(rows, counts, self.batch_sizes, draw.world_size, self.last_batch)

    def padded(self, groups: Groups) -> npt.NDArray[np.int64]:
        """See :meth:`BatchSampler.padded`: the shapes of the groups."""
        return self.shapes[groups.runs]


def ratio_groups(sizes: npt.NDArray[np.int64], factor: int | None) -> npt.NDArray[np.int64]:
    """The group of each image, (N,), by ascending width over height.

    These are the groups of ``aspect_ratio_group_factor`` in torchvision's references for detection: 0 divides
    upright images from the others; k has 2k + 1 bounds from 1/2 to 2, at equal distances of the logarithm.
    """
    # sizes (N, 2)
    if factor is None:
        return np.zeros(len(sizes), np.int64)
    bounds = 2 ** np.linspace(-1, 1, 2 * factor + 1) if factor else np.ones(1)
    return np.searchsorted(bounds, sizes[:, 1] / sizes[:, 0], side="right").astype(np.int64)


@dataclass(frozen=True, eq=False)
class RatioGroupSampler(BatchSampler):
    """Batches of images of one group of aspect ratios; ``lengths`` are (N, 2), heights and widths.

    Images that fill no batch of their group move on to the next one, which is a little wider.
    """

    factor: int | None  # See :func:`ratio_groups`
    batch_size: int  # Samples of a full batch on one rank

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
