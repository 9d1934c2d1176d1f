"""Masks of a batch, drawn in C++ with the interpreter free: pixel for pixel what ``stoker.augment`` gives.

The slow truth is :func:`stoker.augment.geometry.segments.transform_segments` and
:func:`stoker.augment.geometry.transform.transform_mask`.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker import _native
from stoker.augment.geometry.transform import forward_matrix, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from stoker.augment.params.image_params import ImageParams

    Ints = npt.NDArray[np.integer[Any]]
    Mask = npt.NDArray[np.uint8]

__all__ = ["MaskMemory", "bad_polygons", "bad_runs", "draw_class_masks", "draw_segments"]

_OBJECTS = 64  # numbers of objects are rounded up to so many, for few sizes of memory
_BATCHES = 8  # whose memory waits to be used again: with fewer, sizes that alternate drive each other out


class MaskMemory:
    """Memory for masks of objects, used again once nobody holds them: new pages cost more than drawing."""

    def __init__(self) -> None:
        self._arena = _native.Arena(_BATCHES)

    def empty(self, count: int, size: tuple[int, int]) -> Mask:
        """(count, H, W) uint8, of undefined contents, for images of ``size``."""
        rounded = -(-count // _OBJECTS) * _OBJECTS
        return self._arena.array((rounded, *size), "uint8")[:count]


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
    """Masks of objects: what :func:`stoker.augment.geometry.segments.transform_segments` gives.

    Args:
        params: Of a batch.
        owner: (M,) integers, position in the batch of the image that each object belongs to.
        height: (N,) integers, of the sources, pixels.
        width: (N,) likewise.
        polygons: For each object its polygons, (P, 2) each, (x, y) in pixels of the source; or None.
        runs: For each object its run lengths, (R,), empty for none; or None.
        memory: Where the masks come to lie.

    Returns:
        (M, H, W) uint8, 1 where the object is seen, else 0.

    Raises:
        ValueError: Run lengths that are not those of a mask as large as the source, or a vertex of a polygon
            that is not finite.
    """
    masks = (memory or MaskMemory()).empty(len(owner), params.size)
    owners, region, visible = np.asarray(owner, np.int64), params.region, shown(params)
    flat = list(chain.from_iterable(polygons or ()))
    _native.fill_polygons(  # which writes the masks, be there polygons or not
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
    """Masks of classes: what :func:`stoker.augment.geometry.transform.transform_mask` gives.

    Args:
        params: Parameters of a batch.
        data: N files, PNG.
        height: (N,) integers, of the sources, pixels.
        width: (N,) likewise.
        ignore: Value where the output shows nothing of the source, 0 to 255.
        out: (N, H, W), to be written.

    Returns:
        Positions of the masks that were not drawn: all but intact PNGs of one channel of 8 bits that are as
        large as their source; and all where padding continues the images.
    """
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
    """Places of the objects that have run lengths which do not sum to the ``pixels`` of their source, (M,).

    Where ``runs`` is empty there are none.
    """
    counts = _counts(runs)
    if not counts.any():
        return np.zeros(0, np.intp)
    sums = np.concatenate(([0], np.cumsum(np.concatenate(runs), dtype=np.int64)))
    ends = np.cumsum(counts)
    return np.flatnonzero((counts > 0) & (sums[ends] - sums[ends - counts] != pixels))


def bad_polygons(polygons: Sequence[Sequence[npt.NDArray[np.floating[Any]]]]) -> npt.NDArray[np.intp]:
    """Places of the objects that have a polygon with a vertex that is not finite."""
    flat = list(chain.from_iterable(polygons))
    if not flat or np.isfinite(np.concatenate(flat)).all():
        return np.zeros(0, np.intp)
    return np.flatnonzero([not all(np.isfinite(one).all() for one in some) for some in polygons])


def _counts(lists: Sequence[Sequence[Any] | npt.NDArray[Any]]) -> npt.NDArray[np.int64]:
    return np.fromiter(map(len, lists), np.int64, len(lists))
