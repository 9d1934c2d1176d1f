"""RandomIoUCrop: torchvision.transforms.v2.RandomIoUCrop, a crop that depends on the boxes in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError
from stoker.random import derive_key, uniform

from ...description import as_tuple, is_count, is_finite
from ...state.transform_state import TransformState
from ..base import Transform

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]

_ROUNDS = 100
"""With the default options, a round gives no result for at most 5 in 7 of the samples that have boxes whose
centre can be cut out. After this many rounds it is 2 samples in 10**15."""


@dataclass(frozen=True)
class RandomIoUCrop(Transform):
    """Cut out a part that overlaps some box well enough (Liu et al., "SSD", 2016).

    An option is drawn uniformly. An option of 1 or more leaves the image as it is. A smaller option is the
    smallest IoU (intersection over union) that the part must have with a box whose centre it contains. Then
    ``trials`` parts of uniform height, width and location are drawn, and the first part is taken that has
    such an IoU and an allowed aspect ratio. If there is none, another option is drawn. Objects are dropped
    if the centres of their boxes are outside of the part (in torchvision, SanitizeBoundingBoxes does that).

    Unlike torchvision, this transform always leaves an image without boxes as it is. It also leaves an image
    for which a hundred options gave no part; torchvision would go on for ever.

    Args:
        min_scale: Smallest height and width of the part, as shares of the image's.
        max_scale: Largest height and width of the part, likewise.
        min_aspect_ratio: Smallest width over height of the part, in pixels.
        max_aspect_ratio: Largest width over height of the part, in pixels.
        sampler_options: Options that are drawn from; None for (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0).
        trials: Number of parts that are drawn for each option.
    """

    min_scale: float = 0.3
    max_scale: float = 1.0
    min_aspect_ratio: float = 0.5
    max_aspect_ratio: float = 2.0
    sampler_options: Sequence[float] | None = None
    trials: int = 40

    draws: ClassVar[int] = 1

    def __post_init__(self) -> None:
        low, high = self.min_scale, self.max_scale
        rule = "numbers, 0 < min_scale <= max_scale <= 1"
        self.check("min_scale", is_finite(low) and low > 0, rule)
        self.check("max_scale", is_finite(high) and low <= high <= 1, rule)
        low, high = self.min_aspect_ratio, self.max_aspect_ratio
        rule = "numbers, 0 < min_aspect_ratio <= max_aspect_ratio"
        self.check("min_aspect_ratio", is_finite(low) and low > 0, rule)
        self.check("max_aspect_ratio", is_finite(high) and low <= high, rule)
        chosen = self.sampler_options
        options = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0) if chosen is None else as_tuple(chosen, 1)
        good = len(options) > 0 and all(map(is_finite, options))
        self.check("sampler_options", good, "None or numbers, one at least")
        self.set("sampler_options", tuple(map(float, options)))
        self.check("trials", is_count(self.trials), "a positive integer")

    @property
    def uses_boxes(self) -> bool:
        """See :class:`Transform`."""
        return True

    def params(self, state: TransformState, u: Float) -> None:
        """See :class:`Transform`."""
        if state.warp is not None:
            raise ConfigError("RandomIoUCrop stands after a warp", hint="Move it before the warp.")
        if state.padding is not None:
            state.padding.refuse("RandomIoUCrop")
        origin, size = np.zeros_like(state.size), state.size.copy()
        cut = np.zeros(len(u), np.bool_)
        boxes, owner = state.objects.seen(state.geometry)
        # Few of the many rounds are needed: each draws its numbers, for the samples still without result.
        keys = (u[:, 0] * 2.0**53).astype(np.int64)
        waiting = np.unique(owner)
        for number in range(_ROUNDS):
            v = uniform(derive_key(0, 0, number), keys[waiting], 1 + 4 * self.trials)
            option = np.array(self.sampler_options)[(v[:, 0] * len(self.sampler_options or ())).astype(int)]
            leave = option >= 1
            trying, v, option = waiting[~leave], v[~leave, 1:], option[~leave]
            tried = _boxes_of(trying, boxes, owner)
            found, start, extent = self._first(state.size[:, trying], v, option, *tried)
            chosen = trying[found]
            origin[:, chosen], size[:, chosen], cut[chosen] = start[:, found], extent[:, found], True
            waiting = trying[~found]
            if not waiting.size:
                break
        state.crop(origin, size)
        state.objects.restrict(cut, state.geometry)

    def output_size(self, size: tuple[int, int] | None) -> tuple[int, int] | None:
        """See :class:`Transform`: None, for sizes differ from sample to sample."""
        return None

    def _first(
        self, image: Int, v: Float, option: Float, boxes: Float, owner: Int
    ) -> tuple[npt.NDArray[np.bool_], Int, Int]:
        """The first suitable part of each of K images: which have one, (K,), origins and sizes, (2, K)."""
        # ``v``, (K, 4 * trials), are width, height, left and top of each part; each image has a box.
        width, height, left, top = np.moveaxis(v.reshape(-1, self.trials, 4), -1, 0)
        share = self.min_scale + (self.max_scale - self.min_scale) * np.stack((height, width))
        size = (image[..., None] * share).astype(np.int64)
        origin = ((image[..., None] - size) * np.stack((top, left))).astype(np.int64)
        ratio = np.divide(size[1], size[0], out=np.zeros(size[0].shape), where=size[0] > 0)
        good = (self.min_aspect_ratio <= ratio) & (ratio <= self.max_aspect_ratio)
        overlap = _iou(boxes, origin[:, owner], size[:, owner]) >= option[owner, None]
        if owner.size:
            good &= np.logical_or.reduceat(overlap, np.searchsorted(owner, np.arange(len(option))))
        rows, first = np.arange(len(good)), np.argmax(good, axis=1)
        return good[rows, first], origin[:, rows, first], size[:, rows, first]


def _iou(boxes: Float, origin: Int, size: Int) -> Float:
    """IoU of boxes, (M, 4), with T parts of the image each, (2, M, T); -1 where the centre is outside."""
    low, high = boxes[:, 1::-1].T[..., None], boxes[:, :1:-1].T[..., None]
    center, stop = (low + high) / 2, origin + size
    inside = (origin < center) & (center < stop)
    sides = np.maximum(np.minimum(high, stop) - np.maximum(low, origin), 0)
    shared = _product(sides)
    union = _product(high - low) + _product(size) - shared
    share = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return np.where(inside[0] & inside[1], share, -1.0)


def _product(sides: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Areas from heights and widths, (2, ...), as by ``prod(axis=0)`` in a fraction of the time."""
    return np.asarray(sides[0] * sides[1])


def _boxes_of(rows: Int, boxes: Float, owner: Int) -> tuple[Float, Int]:
    """The boxes of the images ``rows``, ascending, and the indices of their owners in ``rows``."""
    index = np.searchsorted(rows, owner)
    mine = np.append(rows, -1)[index] == owner
    return boxes[mine], index[mine]
