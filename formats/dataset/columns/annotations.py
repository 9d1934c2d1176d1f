"""The objects of images in memory, which an index stores and a loader transforms.

Coordinates are (x, y) in pixels of the image after its EXIF orientation has been applied. Edges of pixels are
integers: the centre of the first pixel is (0.5, 0.5). In the index objects are lists, see
:mod:`stoker.formats.dataset.columns.annotation_columns`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class AnnotationInfo:
    """The meaning of the annotations of a dataset, apart from the names of its classes."""

    keypoints: tuple[str, ...] = ()  # Names of the K keypoints of an object
    # K indexes: keypoint k of a mirrored image is keypoint ``swap[k]`` of the original
    swap: tuple[int, ...] = ()
    skeleton: tuple[tuple[int, int], ...] = ()  # Pairs of keypoints, from 0, that a drawing joins
    # Value in masks for pixels that belong to no class; None if every value is a class
    ignore: int | None = None
    # Names of the values in masks; the index is the value. Empty if they have no names
    mask_classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        number = len(self.keypoints)
        if self.swap and sorted(self.swap) != list(range(number)):
            raise ValueError(f"swap must name each of {number} keypoints once, not {list(self.swap)}")
        if any(not 0 <= point < number for pair in self.skeleton for point in pair):
            raise ValueError(f"the skeleton joins keypoints that are not among {number}")
        if self.ignore is not None and not 0 <= self.ignore < 1 << 16:
            raise ValueError(f"ignore must be a value of a mask, 0 to 65535, not {self.ignore}")


@dataclass(frozen=True, eq=False)
class Annotations:
    """The M objects of N samples, sample by sample."""

    owner: npt.NDArray[np.int64]  # (M,) int64, ascending, index of the object's sample among the N samples
    boxes: npt.NDArray[np.float32]  # (M, 4) float32, left, top, right, bottom, pixels
    labels: npt.NDArray[np.int64]  # (M,) int64
    # (M,) bool, whether it is a group of objects that are annotated as one (COCO's ``iscrowd``)
    crowd: npt.NDArray[np.bool_]
    # (M,) float32, pixels of the object if the source states them, otherwise of its box
    area: npt.NDArray[np.float32]
    id: npt.NDArray[np.int64]  # (M,) int64, the object's number in its source
    # (M, K, 3) float32, x, y, visibility (0 not labelled, 1 hidden, 2 visible); None if the dataset has none
    keypoints: npt.NDArray[np.float32] | None = None
    # The polygons of each object, (P, 2) float32 each
    polygons: list[list[npt.NDArray[np.float32]]] | None = None
    # For each object (R,) uint32 run lengths of its mask in column order, the first of background (COCO's
    # RLE); empty for objects with polygons. None if the dataset has none
    runs: list[npt.NDArray[np.uint32]] | None = None
    # Other columns of numbers, (M,) each, by name, such as Pascal VOC's "difficult"
    extra: Mapping[str, Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.owner)

    def take(self, which: npt.ArrayLike) -> Annotations:
        """Return some of the objects, by (M,) bool or by integers."""
        at = np.asarray(which)
        at = np.flatnonzero(at) if at.dtype == bool else at.astype(np.int64)
        return Annotations(**{item.name: _taken(getattr(self, item.name), at) for item in fields(self)})

    def split(self, samples: int) -> list[Annotations]:
        """Return the objects of each of the ``samples`` samples; their owner becomes 0."""
        bounds = np.searchsorted(self.owner, np.arange(samples + 1)).tolist()
        parts = (self.take(np.arange(a, b)) for a, b in itertools.pairwise(bounds))
        return [replace(part, owner=np.zeros_like(part.owner)) for part in parts]


def _taken(value: Any, at: npt.NDArray[np.int64]) -> Any:
    if isinstance(value, list):
        return [value[i] for i in at.tolist()]
    if isinstance(value, Mapping):
        return {name: array[at] for name, array in value.items()}
    return None if value is None else value[at]
