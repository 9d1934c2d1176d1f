"""Masks of a batch, drawn in C++ while other threads run Python.

Pixel for pixel they are those of the reference, :func:`stoker.augment.geometry.masks.transform_segments`
and :func:`stoker.augment.geometry.annotations.transform_mask`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker.augment.geometry.annotations import forward_matrix, shown
from stoker.augment.params import ImageParams

Ints = npt.NDArray[np.integer[Any]]
Mask = npt.NDArray[np.uint8]

_OBJECTS = 64  # the number of objects is rounded up to a multiple, so that few sizes of memory occur
_BATCHES = 8  # whose memory is kept; with fewer, alternating sizes evict each other


class MaskMemory:
    """Memory for masks of objects, which is reused: new pages of memory cost more than drawing."""

    def __init__(self) -> None:
        self._pool = _native.BufferPool(_BATCHES)

    def empty(self, count: int, size: tuple[int, int]) -> Mask:
        """(count, H, W) uint8 with undefined contents, for images of ``size``, (H, W)."""
        rounded = -(-count // _OBJECTS) * _OBJECTS
        return self._pool.array((rounded, *size), "uint8")[:count]


def draw_segments(
    params: ImageParams,
    owner: Ints,
    height: Ints,
    width: Ints,
    *,
    polygons: Sequence[Sequence[npt.NDArray[np.floating[Any]]]] | None = None,
    runs: Sequence[Ints] | None = None,
    memory: MaskMemory | None = None,
) -> Mask:
    """Masks of objects, as :func:`stoker.augment.geometry.masks.transform_segments` makes them."""
    # owner (M,), height (N,), width (N,) -> (M, H, W) uint8
    masks = (memory or MaskMemory()).empty(len(owner), params.size)
    owners, region, visible = np.asarray(owner, np.int64), params.region, shown(params)
    flat = list(chain.from_iterable(polygons or ()))
    _native.fill_polygons(  # fills the masks even if there are no polygons
        masks,
        owners,
        forward_matrix(params),
        region,
        visible,
        np.concatenate(flat, dtype=np.float64) if flat else np.zeros((0, 2)),
        _counts(flat),
        _counts(polygons) if polygons else np.zeros(len(owners), np.int64),
    )
    if runs:
        _native.fill_runs(
            masks,
            owners,
            params.to_source(),
            region,
            visible,
            np.asarray(height, np.int32),
            np.asarray(width, np.int32),
            np.concatenate(runs, dtype=np.uint32, casting="same_kind"),
            _counts(runs),
        )
    return masks


def draw_class_masks(
    params: ImageParams, data: Sequence[bytes], height: Ints, width: Ints, *, ignore: int, out: Mask
) -> list[int]:
    """Draw class masks, as :func:`stoker.augment.geometry.annotations.transform_mask` makes them.

    It draws intact PNGs with one channel of 8 bits that are as large as their source, and no mask at all if
    padding continues the images.
    """
    # height (N,), width (N,), out (N, H, W) uint8
    if params.border is not None:
        return list(range(len(params)))
    return _native.class_masks(
        out,
        list(data),
        params.to_source(),
        params.region,
        shown(params),
        np.asarray(height, np.int32),
        np.asarray(width, np.int32),
        ignore,
    )


def bad_runs(runs: Sequence[Ints], pixels: Ints) -> npt.NDArray[np.intp]:
    """Indices of objects whose run lengths do not sum to the ``pixels``, (M,), of their source."""
    counts = _counts(runs)
    if not counts.any():
        return np.zeros(0, np.intp)
    sums = np.concatenate(([0], np.cumsum(np.concatenate(runs), dtype=np.int64)))
    ends = np.cumsum(counts)
    return np.flatnonzero((counts > 0) & (sums[ends] - sums[ends - counts] != pixels))


def bad_polygons(polygons: Sequence[Sequence[npt.NDArray[np.floating[Any]]]]) -> npt.NDArray[np.intp]:
    """Indices of objects that have a polygon with a vertex that is not finite."""
    flat = list(chain.from_iterable(polygons))
    if not flat or np.isfinite(np.concatenate(flat)).all():
        return np.zeros(0, np.intp)
    return np.flatnonzero([not all(np.isfinite(one).all() for one in some) for some in polygons])


def _counts(lists: Sequence[Sequence[Any] | npt.NDArray[Any]]) -> npt.NDArray[np.int64]:
    return np.fromiter(map(len, lists), np.int64, len(lists))
