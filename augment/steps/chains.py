"""Steps of AugMix: a weighted sum of what chains of steps make of an image, and warps within the chains."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ..formulas.resample import pick, resample
from .base import Step, to_uint8

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Distort(Step):
    """A projective resampling to the same size, within the chains of :class:`WeightedSum`.

    :class:`stoker.augment.params.optional_params.Warp` defines it, where the image is the source or, with
    ``nearest``, the canvas.

    Attributes:
        matrix: (N, 3, 3) float64, from homogeneous (x, y, 1) in the output to the image.
        fill: RGB outside of the image, uint8.
        nearest: Whether pixels are picked, not interpolated.
    """

    operation: ClassVar[str] = "distort"

    matrix: npt.NDArray[np.float64]
    fill: tuple[int, int, int]
    nearest: bool = False

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        """See :class:`Step`."""
        execute = pick if self.nearest else resample
        return execute(pixels, self.matrix[i], (pixels.shape[0], pixels.shape[1]), self.fill)


@dataclass(frozen=True)
class WeightedSum(Step):
    """A weighted sum of the image and of what chains of steps make of it (AugMix), rounded half up.

    Attributes:
        weights: (N, chains + 1) float32, of the image and then of each chain.
        chains: Steps of each chain, in order.
    """

    operation: ClassVar[str] = "weighted_sum"

    weights: npt.NDArray[np.float32]
    chains: tuple[tuple[Step, ...], ...]

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        """See :class:`Step`."""
        own, *others = self.weights[i].astype(np.float64)
        total = own * pixels
        for weight, chain in zip(others, self.chains, strict=True):
            changed = pixels
            for step in chain:
                changed = step.run(i, changed)
            total += weight * changed
        return to_uint8(total)


def step_names(steps: Iterable[Step]) -> frozenset[str]:
    """Names of the classes of ``steps``, and of those that a :class:`WeightedSum` among them contains."""
    names: frozenset[str] = frozenset()
    for step in steps:
        names |= {type(step).__name__}
        for chain in step.chains if isinstance(step, WeightedSum) else ():
            names |= step_names(chain)
    return names
