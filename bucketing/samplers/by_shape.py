"""The batch sampler of images: each batch has one shape of a few, which suits its images' aspect ratios."""

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

__all__ = ["ShapeBucketSampler"]


@dataclass(frozen=True, eq=False)
class ShapeBucketSampler(BatchSampler):
    """Batches of images of one shape each; ``lengths`` are (N, 2), the heights and widths of the images.

    Images that fill no batch of their shape move on to the next shape, which is a little higher and narrower.

    Attributes:
        shapes: (K, 2) int64, heights and widths, by ascending height over width.
        batch_sizes: (K,) int64, the number of samples in a full batch of each shape on one rank.
    """

    shapes: npt.NDArray[np.int64]
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
