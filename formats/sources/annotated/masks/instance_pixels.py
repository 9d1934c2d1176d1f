"""The objects of a mask whose values number them: their boxes, areas and run lengths.

:mod:`.instance_pairs` calls it for each mask of a source.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


class Segments(NamedTuple):
    """Pixels of one value, as S segments of columns of a mask, column by column as in COCO's run lengths."""

    start: Integers  # (S,) int64, indexes of the first pixels, counted column by column
    length: Integers  # (S,) int64, their numbers of pixels
    classes: Integers  # (S,) int64, the class of each in the mask of classes; zeros without one


class Instance(NamedTuple):
    """An object of a mask."""

    value: int  # Its value
    box: tuple[int, int, int, int]  # Left, top, right, bottom, pixels
    area: int  # Number of its pixels
    # (R,) uint32, its run lengths, see :mod:`stoker.formats.dataset.annotations`
    runs: npt.NDArray[np.uint32]
    segments: Segments  # Segments of its pixels


def instances_of(values: npt.NDArray[Any], classes: npt.NDArray[Any] | None = None) -> Iterator[Instance]:
    """Yield the objects of a mask, (H, W) uint8 or uint16: one for each value but 0, in ascending order.

    ``classes`` is the mask of classes, of the same shape.
    """
    height = len(values)
    flat = np.ascontiguousarray(values.T).ravel()
    first = np.ones(len(flat), bool)
    first[1:] = flat[1:] != flat[:-1]
    first[::height] = True
    class_of = None if classes is None else np.ascontiguousarray(classes.T).ravel()
    if class_of is not None:
        first[1:] |= class_of[1:] != class_of[:-1]
    start = np.flatnonzero(first)
    length = np.diff(start, append=len(flat))
    value = flat[start].astype(np.int64)
    of_class = np.zeros(len(start), np.int64) if class_of is None else class_of[start].astype(np.int64)
    order = np.argsort(value, kind="stable")
    distinct, bounds = np.unique(value[order], return_index=True)
    for number, chosen in zip(distinct.tolist(), np.split(order, bounds[1:]), strict=True):
        if number:
            segments = Segments(start[chosen], length[chosen], of_class[chosen])
            yield Instance(number, _box(segments, height), *_runs(segments, len(flat)), segments)


def _box(segments: Segments, height: int) -> tuple[int, int, int, int]:
    column, top = np.divmod(segments.start, height)
    bottom = top + segments.length
    return int(column[0]), int(top.min()), int(column[-1]) + 1, int(bottom.max())


def _runs(segments: Segments, pixels: int) -> tuple[int, npt.NDArray[np.uint32]]:
    """Area and run lengths; segments that touch are one run."""
    start, end = segments.start, segments.start + segments.length
    apart = start[1:] != end[:-1]
    starts, ends = start[np.append(True, apart)], end[np.append(apart, True)]
    bounds = np.stack((starts, ends), axis=1).ravel()
    runs = np.diff(bounds, prepend=0, append=pixels)
    return int(segments.length.sum()), runs[: len(runs) - (not runs[-1])].astype(np.uint32)
