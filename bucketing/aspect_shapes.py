"""Shapes of buckets of images: heights and widths of one area, chosen for the aspect ratios of a dataset.

An image is resized until it covers its bucket's shape, and cropped. Let r be the logarithm of the image's
height over its width, and s that of the shape. The crop leaves out the share ``1 - exp(-|r - s|)`` of the
image. If the image was fitted into the shape and padded, the same share of the shape would be empty. So an
image belongs to the shape with the nearest s. A dynamic program over neighbouring shapes finds the best K.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

from .groups import Groups
from .samplers import BatchSampler, Draw

Int64 = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]


def candidate_shapes(area: int, multiple: int, max_ratio: float) -> Int64:
    """Heights and widths that buckets may have, (C, 2), by ascending height over width."""
    # Each height is a multiple of ``multiple``, and its width is the multiple that comes nearest to ``area``.
    heights = np.arange(1, int(np.sqrt(area * max_ratio) / multiple) + 2) * multiple
    widths = np.maximum(np.rint(area / heights / multiple), 1).astype(np.int64) * multiple
    both = np.unique(np.concatenate([(heights, widths), (widths, heights)], axis=1), axis=1)
    shapes = both.T[both.max(axis=0) <= max_ratio * both.min(axis=0)]
    if not len(shapes):
        raise ConfigError(
            f"no shape of about {area} pixels has sides that are multiples of {multiple} "
            f"and a ratio of at most {max_ratio}",
            hint="Choose a smaller multiple, or a larger max_ratio.",
        )
    # Among shapes of one ratio, the one with the nearest area is taken.
    order = np.lexsort((np.abs(shapes.prod(axis=1) - area), shapes[:, 0] / shapes[:, 1]))
    ratios = shapes[order, 0] / shapes[order, 1]
    return np.asarray(shapes[order][np.diff(ratios, prepend=0) > 0])


def nearest_shapes(sizes: Int64, shapes: Int64) -> Int64:
    """The shape that each image belongs to, (N,), which crops the least of it."""
    # sizes (N, 2), shapes (K, 2)
    ratios = _log_ratios(shapes)
    return np.searchsorted((ratios[1:] + ratios[:-1]) / 2, _log_ratios(sizes)).astype(np.int64)


def cropped_shares(sizes: Int64, shapes: Int64) -> Float:
    """The share of each image that a crop to its shape leaves out, (N,), 0 to 1; both are (N, 2)."""
    return np.asarray(1 - np.exp(-np.abs(_log_ratios(sizes) - _log_ratios(shapes))))


def best_shapes(sizes: Int64, candidates: Int64, count: int) -> Int64:
    """At most ``count`` shapes that crop the least, (K, 2), by ascending height over width."""
    # sizes (N, 2), candidates (C, 2)
    sums, ratios = _Sums.of(np.sort(_log_ratios(sizes))), _log_ratios(candidates)
    middle = (ratios[:, None] + ratios[None]) / 2
    # cost[i, j]: of the images between shapes i and j, where no shape between them is chosen.
    cost = sums.above(ratios[:, None], middle) + sums.below(middle, ratios[None])
    first, last = sums.below(np.full(len(ratios), -np.inf), ratios), sums.above(ratios, np.inf + ratios)
    best, steps = first, []
    earlier = np.tri(len(ratios), k=-1, dtype=np.bool_).T
    totals = [(float((best + last).min()), int((best + last).argmin()))]
    for _ in range(min(count, len(ratios)) - 1):
        options = np.where(earlier, best[:, None] + cost, np.inf)
        steps.append(options.argmin(axis=0))
        best = options.min(axis=0)
        totals.append((float((best + last).min()), int((best + last).argmin())))
    used = min(range(len(totals)), key=lambda k: totals[k][0])
    chosen = [totals[used][1]]
    for step in reversed(steps[:used]):
        chosen.append(int(step[chosen[-1]]))
    shapes = candidates[sorted(chosen)]
    return np.asarray(shapes[np.unique(nearest_shapes(sizes, shapes))])


class _Sums(NamedTuple):
    """Sums over images by ascending log ratio, for the cropped shares of any range of them."""

    ratios: Float  # (N,), ascending
    falling: Float  # (N + 1,), sums of exp(-r) of the first images
    rising: Float  # (N + 1,), sums of exp(r)

    @classmethod
    def of(cls, ratios: Float) -> _Sums:
        falling, rising = (np.concatenate(([0.0], np.cumsum(np.exp(sign * ratios)))) for sign in (-1, 1))
        return cls(ratios, falling, rising)

    def above(self, shape: Float, end: Float) -> Float:
        """Cropped shares of the images with ``shape < r <= end``, cropped to ``shape``."""
        low, high = self._range(shape, end)
        return np.asarray((high - low) - np.exp(shape) * (self.falling[high] - self.falling[low]))

    def below(self, begin: Float, shape: Float) -> Float:
        """Cropped shares of the images with ``begin < r <= shape``, cropped to ``shape``."""
        low, high = self._range(begin, shape)
        return np.asarray((high - low) - np.exp(-shape) * (self.rising[high] - self.rising[low]))

    def _range(self, begin: Float, end: Float) -> tuple[Int64, Int64]:
        """First index, and the index after the last, of the images with ``begin < r <= end``."""
        low, high = (np.searchsorted(self.ratios, one, side="right") for one in (begin, end))
        low, high = np.broadcast_arrays(low, high)
        return low, np.maximum(low, high)


def _log_ratios(sizes: Int64) -> Float:
    return np.asarray(np.log(sizes[:, 0] / sizes[:, 1]))


def ratio_groups(sizes: Int64, factor: int | None) -> Int64:
    """The group of each image, (N,), by ascending width over height."""
    # These are the groups of ``aspect_ratio_group_factor`` in torchvision's references for detection: 0
    # divides upright images from the others; k has 2k + 1 bounds from 1/2 to 2, at equal distances of the
    # logarithm. None makes one group.
    # sizes (N, 2)
    if factor is None:
        return np.zeros(len(sizes), np.int64)
    bounds = 2 ** np.linspace(-1, 1, 2 * factor + 1) if factor else np.ones(1)
    return np.searchsorted(bounds, sizes[:, 1] / sizes[:, 0], side="right").astype(np.int64)


@dataclass(frozen=True, eq=False)
class AspectSampler(BatchSampler):
    """Image batches of similar aspect ratios; ``lengths`` are (N, 2), the heights and widths of the images.

    Images that fill no batch of their group move on to the next one. So groups are numbered by aspect ratio.
    """

    groups: Int64  # (N,), the group of each image
    batch_sizes: Int64  # (K,), the samples of a full batch of each group on one rank
    shapes: Int64 | None = None  # (K, 2), heights and widths of batches; None: those of the largest images

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_sizes.min() < 1:
            raise ConfigError(f"batch_sizes must be numbers from 1, found {self.batch_sizes.min()}")

    def cut(self, draw: Draw) -> Groups:
        """Return groups of rows of one group of images each."""
        return self.cut_by_bucket(draw, self.groups.astype(np.uint16), self.batch_sizes)

    def padded(self, groups: Groups) -> Int64:
        """Return the shapes of the groups, or the largest heights and widths in them."""
        return self.group_maxima(groups) if self.shapes is None else self.shapes[groups.runs]
