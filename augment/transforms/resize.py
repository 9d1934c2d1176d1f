"""Resize: torchvision.transforms.v2.Resize, antialiased."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stoker.augment.transforms.base import Size, Transform, is_count

if TYPE_CHECKING:
    from collections.abc import Sequence
    from enum import Enum

    import numpy.typing as npt

    from stoker.augment.frame import Frame

__all__ = ["Resize"]


@dataclass(frozen=True)
class Resize(Transform):
    """Resize the image.

    Args:
        size: (height, width) in pixels, or one number for the shorter side; the longer one then
            follows the aspect ratio, truncated to whole pixels as torchvision does.
        interpolation: "bilinear", "bicubic", "nearest" or "lanczos", or torchvision's InterpolationMode; see
            :class:`stoker.augment.interpolation.Interpolation`.
        max_size: Upper bound of the longer side, with a single ``size`` only: where it would be
            passed, the image becomes smaller than ``size``.

    A crop that follows is taken from the source directly: nothing is resampled twice, so the crop's
    corners, not their rounding to the source's pixels, decide.
    """

    size: int | Sequence[int]
    interpolation: str | Enum = "bilinear"
    max_size: int | None = None

    def __post_init__(self) -> None:
        if is_count(self.size):
            self.set("size", int(self.size))  # type: ignore[arg-type]  # is_count: an integer
        else:
            self.set_size()
        self.set_interpolation()
        if self.max_size is not None:
            single = isinstance(self.size, int)
            good = single and is_count(self.max_size) and self.max_size > self.size  # type: ignore[operator]  # single
            self.check("max_size", good, f"None, or more than a single size (which is {self.size})")

    def decide(self, frame: Frame, u: npt.NDArray[np.float64]) -> None:
        """See :class:`Transform`."""
        if isinstance(self.size, int):
            frame.resize(self._by_shorter_side(frame.size, self.size), self.interpolation)
        else:
            frame.resize(np.array(self.size)[:, None], self.interpolation)

    def output_size(self, size: Size | None) -> Size | None:
        """See :class:`Transform`."""
        if not isinstance(self.size, int):
            return self.size  # type: ignore[return-value]  # a pair since __post_init__
        if size is None:
            return None
        height, width = self._by_shorter_side(np.array(size)[:, None], self.size)[:, 0].tolist()
        return height, width

    def _by_shorter_side(self, size: npt.NDArray[np.int64], shorter: int) -> npt.NDArray[np.int64]:
        """Sizes, (2, N), whose shorter side is ``shorter`` unless the longer one passes ``max_size``."""
        longer = (shorter * size.max(axis=0) / size.min(axis=0)).astype(np.int64)
        new = np.where(size == size.min(axis=0), shorter, longer)
        if self.max_size is None:
            return new
        reduced = np.maximum((self.max_size * shorter / longer).astype(np.int64), 1)
        bounded = np.where(size == size.min(axis=0), reduced, self.max_size)
        return np.where(longer > self.max_size, bounded, new)
