"""Degradations: torchvision.transforms.v2.GaussianNoise and JPEG.

They act on the pixels of the output, after all geometry, padding included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

from ...description import as_pair, as_tuple, is_count, is_finite
from ...state.transform_state import TransformState
from ...steps import AddNoise, Compress
from ..base import Transform

Float = npt.NDArray[np.float64]


@dataclass(frozen=True)
class GaussianNoise(Transform):
    """Add normal noise to each pixel and channel; levels are clipped to 0..255 and rounded.

    The noise is a function of seed, epoch, sample and pixel, the same in every engine that executes it.

    Args:
        mean: Mean of the noise, as a share of the full range: 0.5 adds 127.5 levels.
        sigma: Standard deviation, likewise, from 0.
        clip: True. torchvision's False, with which levels overflow, is refused.
    """

    mean: float = 0.0
    sigma: float = 0.1
    clip: bool = True

    draws: ClassVar[int] = 1

    def __post_init__(self) -> None:
        self.check("mean", is_finite(self.mean), "a finite number, a share of the full range")
        rule = "a finite number from 0, a share of the full range"
        self.check("sigma", is_finite(self.sigma) and self.sigma >= 0, rule)
        if self.clip is not True:
            raise ConfigError(
                f"GaussianNoise: clip must be True; found {self.clip!r}",
                hint="Leave it out: levels beyond 0..255 are clipped, as images have 8 bits here.",
            )

    def params(self, state: TransformState, u: Float) -> None:
        """See :class:`Transform`."""
        n = len(u)
        mean, deviation = (np.full(n, 255 * share, np.float32) for share in (self.mean, self.sigma))
        keys = (u[:, 0] * 2.0**53).astype(np.uint64)
        state.add_steps(AddNoise(np.ones(n, np.bool_), keys, mean, deviation))


@dataclass(frozen=True)
class JPEG(Transform):
    """Encode the image as a JPEG and decode it.

    Args:
        quality: 1 to 100, or a pair (lowest, highest), from which whole numbers are drawn uniformly.
    """

    quality: int | Sequence[int]

    draws: ClassVar[int] = 1

    def __post_init__(self) -> None:
        pair = as_tuple(self.quality, 2)
        good = len(pair) == 2 and all(map(is_count, pair)) and pair[0] <= pair[1] <= 100
        self.check("quality", good, "a whole number 1 to 100 or a pair (low, high) of them")
        self.set("quality", tuple(map(int, pair)))

    def params(self, state: TransformState, u: Float) -> None:
        """See :class:`Transform`."""
        low, high = as_pair(self.quality)
        quality = (low + np.floor(u[:, 0] * (high - low + 1))).astype(np.uint8)
        state.add_steps(Compress(np.ones(len(u), np.bool_), quality))
