"""Resize: torchvision.transforms.v2.Resize."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import numpy.typing as npt

from stoker.types import Size

from ...description import added, as_tuple, is_count
from ...state.transform_state import TransformState
from ..base import Transform

Int = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Resize(Transform):
    """Resize the image.

    Args:
        size: (height, width) in pixels, or one number for the shorter side; the longer side then
            follows from the aspect ratio, truncated to whole pixels as in torchvision. None where only
            ``max_size`` is given.
        interpolation: "bilinear", "bicubic", "nearest" or "lanczos", or torchvision's InterpolationMode; see
            :class:`stoker.augment.geometry.interpolation.Interpolation`.
        max_size: Largest length of the longer side, pixels, with a single ``size`` only: where the longer
            side would exceed it, the image becomes smaller than ``size``. ``Resize(640, max_size=640)`` makes
            the longer side 640, as does ``max_size`` without a size; torchvision refuses the former.
        antialias: Whether each pixel of a smaller image is an average of all that it stands for. Without it,
            bilinear and bicubic look at the nearest pixels only, as torchvision does on tensors. An image
            that is warped as well antialiases.

    A crop that follows is taken from the source directly: nothing is resampled twice, and the crop's corners
    are not rounded to pixels of the source.
    """

    size: int | Sequence[int] | None
    interpolation: str | Enum = "bilinear"
    max_size: int | None = None
    antialias: bool = added(True)

    def __post_init__(self) -> None:
        sizes = as_tuple(self.size, 1)
        if self.size is None:
            self.check("max_size", is_count(self.max_size), "a positive integer where size is None")
        elif len(sizes) == 1:
            rule = "a positive integer or a pair (height, width) of them, pixels"
            self.check("size", is_count(sizes[0]), rule)
            self.set("size", int(sizes[0]))
        else:
            self.set_size()
        self.set_interpolation()
        self.check_antialias()
        if self.size is not None and self.max_size is not None:
            good = isinstance(self.size, int) and is_count(self.max_size) and self.max_size >= self.size
            self.check("max_size", good, f"None, or at least a single size (which is {self.size})")

    def params(self, state: TransformState, u: npt.NDArray[np.float64]) -> None:
        """See :class:`Transform`."""
        state.resize(self._new_size(state.size), self.interpolation, antialias=self.antialias)

    def output_size(self, size: Size | None) -> Size | None:
        """See :class:`Transform`."""
        if isinstance(self.size, tuple):
            return self.size
        if size is None:
            return None
        height, width = self._new_size(np.array(size)[:, None])[:, 0].tolist()
        return height, width

    def with_size(self, size: Size) -> Resize:
        """See :class:`Transform`."""
        return replace(self, size=size, max_size=None)

    def _new_size(self, size: Int) -> Int:
        """New sizes, (2, N), of images of ``size``, (2, N); (2, 1) where all have the same."""
        if isinstance(self.size, tuple):
            return np.array(self.size)[:, None]
        least, most = size.min(axis=0), size.max(axis=0)
        shorter, longer = least, most
        if isinstance(self.size, int):
            shorter, longer = np.full_like(least, self.size), (self.size * most / least).astype(np.int64)
        if self.max_size is not None:
            reduced = np.maximum((self.max_size * shorter / longer).astype(np.int64), 1)
            bounded = longer > self.max_size if self.size else np.full(longer.shape, True)
            shorter, longer = np.where(bounded, reduced, shorter), np.where(bounded, self.max_size, longer)
        return np.asarray(np.where(size == least, shorter, longer))
