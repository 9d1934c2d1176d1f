"""Operations at random: torchvision.transforms.v2.RandAugment and TrivialAugmentWide.

Three things differ from torchvision: interpolation is bilinear by default; all geometry is resampled once,
before all colours; and consecutive changes of colours are not rounded in between. All images must have one
size before these transforms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ...description import is_count, is_whole
from ...geometry.interpolation import WARPING
from ...state.transform_state import TransformState
from ..base import Transform
from .operations import Kind, Operations, magnitudes, signs

Float = npt.NDArray[np.float64]

_MOST_BINS = 10_000
"""Limit of the table of all magnitudes."""
_KINDS = tuple(kind for kind in Kind if kind != Kind.Invert)


@dataclass(frozen=True)
class RandAugment(Transform):
    """Apply ``num_ops`` operations out of fourteen, one after the other (Cubuk et al., 2019).

    Each is chosen uniformly, with replacement; operations that have a direction take either sign.

    Args:
        num_ops: Number of operations, from 0.
        magnitude: Bin of their magnitude, 0 to ``num_magnitude_bins - 1``.
        num_magnitude_bins: Number of bins, at least 2.
        interpolation: As for :class:`stoker.augment.RandomRotation`, for the geometric operations.
        fill: Level 0..255 or three of them (RGB) outside of the image, as for
            :class:`stoker.augment.Pad`; None leaves the choice to other transforms (black).
    """

    num_ops: int = 2
    magnitude: int = 9
    num_magnitude_bins: int = 31
    interpolation: str | Enum = "bilinear"
    fill: int | Sequence[int] | None = None

    warps: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_bins(self)
        self.check("num_ops", is_whole(self.num_ops), "an integer from 0")
        good = is_whole(self.magnitude) and self.magnitude < self.num_magnitude_bins
        self.check("magnitude", good, "an integer from 0, below num_magnitude_bins")
        self.set("draws", 2 * self.num_ops)  # of each operation its kind and sign

    def params(self, state: TransformState, u: Float) -> None:
        """See :class:`Transform`."""
        if self.num_ops == 0:
            return
        state.use_fill(self.fill)
        bins = self.num_magnitude_bins
        table = magnitudes(bins, shear=0.3, shift=150 / 331, turn=30, factor=0.9, bits=(8, 4))
        kind = (u[:, : self.num_ops] * len(_KINDS)).astype(np.int64)
        magnitude = table[kind, self.magnitude] * signs(kind, u[:, self.num_ops :])
        Operations(kind, magnitude, True, (_KINDS,) * self.num_ops).compose(state, self.interpolation)


@dataclass(frozen=True)
class TrivialAugmentWide(Transform):
    """Apply one operation out of fourteen, of any magnitude (Müller and Hutter, 2021).

    Operation, magnitude and sign are chosen uniformly.

    Args:
        num_magnitude_bins: Number of bins of magnitudes, at least 2.
        interpolation: As for :class:`RandAugment`.
        fill: As for :class:`RandAugment`.
    """

    num_magnitude_bins: int = 31
    interpolation: str | Enum = "bilinear"
    fill: int | Sequence[int] | None = None

    draws: ClassVar[int] = 3
    warps: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_bins(self)

    def params(self, state: TransformState, u: Float) -> None:
        """See :class:`Transform`."""
        state.use_fill(self.fill)
        table = magnitudes(self.num_magnitude_bins, shear=0.99, shift=32, turn=135, factor=0.99, bits=(8, 6))
        kind = (u[:, :1] * len(_KINDS)).astype(np.int64)
        level = (u[:, 1:2] * self.num_magnitude_bins).astype(np.int64)
        magnitude = table[kind, level] * signs(kind, u[:, 2:])
        Operations(kind, magnitude, False, (_KINDS,)).compose(state, self.interpolation)


def _check_bins(transform: RandAugment | TrivialAugmentWide) -> None:
    bins = transform.num_magnitude_bins
    good = is_count(bins) and 2 <= bins <= _MOST_BINS
    transform.check("num_magnitude_bins", good, f"an integer within 2 to {_MOST_BINS}")
    transform.set_interpolation(*WARPING)
    transform.set_fill(optional=True)
