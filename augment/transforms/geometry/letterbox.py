"""The letterbox of YOLO: the whole image, as large as it fits, in the middle of an output of one size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from ...state.transform_state import TransformState
from ..base import SizedTransform


@dataclass(frozen=True)
class Letterbox(SizedTransform):
    """Resize the image so that it just fits, and pad it to the size of the output.

    Args:
        size: (height, width) of the output in pixels, or one number for a square.
        fill: Level 0..255 or three of them (RGB) of the padding; 114 is YOLO's grey. A list of transforms has
            one fill.
        enlarge: Whether an image that is smaller than the output is enlarged (``scaleup`` of Ultralytics).
        center: Whether the image lies in the middle; else at the top left.
        interpolation: As for :class:`stoker.augment.Resize`.

    The geometry is that of LetterBox in github.com/ultralytics/ultralytics, data/augment.py: sides are
    rounded, and the smaller half of an odd margin is at the top and left. Unlike there, resizing antialiases.
    """

    fill: int | Sequence[int] = 114
    enlarge: bool = True
    center: bool = True
    interpolation: str | Enum = "bilinear"

    def __post_init__(self) -> None:
        self.set_size()
        self.set_fill()
        self.set_interpolation()
        for name in ("enlarge", "center"):
            self.check(name, isinstance(getattr(self, name), bool), "True or False")

    def params(self, state: TransformState, u: npt.NDArray[np.float64]) -> None:
        """See :class:`Transform`."""
        size = np.array(self.size)[:, None]
        scale = (size / state.size).min(axis=0)
        if not self.enlarge:
            scale = np.minimum(scale, 1)
        fitted = np.maximum(np.rint(state.size * scale).astype(np.int64), 1)
        margin = size - fitted
        before = np.rint(margin / 2 - 0.1).astype(np.int64) if self.center else np.zeros_like(margin)
        state.use_fill(self.fill)
        state.resize(fitted, self.interpolation)
        state.crop(-before, size)
