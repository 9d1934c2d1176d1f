"""Steps that change each pixel by its own colour, some also by the histogram of the image."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from .base import Step, check_array, to_uint8

Pixels = npt.NDArray[np.uint8]
Counts = npt.NDArray[np.intp]
Rule = Callable[[Counts], npt.NDArray[np.intp]]


@dataclass(frozen=True)
class Affine(Step):
    """A map of colours that another step follows: rounded half up and clipped to uint8.

    Attributes:
        color: (N, 3, 4) float32, as in ``ImageParams``.
        mean_matrix: (N, 3, 3) float32, as in ``ImageParams``, of the image that this step finds; or None.
    """

    operation: ClassVar[str] = "affine"

    color: npt.NDArray[np.float32]
    mean_matrix: npt.NDArray[np.float32] | None

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        """See :class:`Step`."""
        color = self.color[i].astype(np.float64)
        values: npt.NDArray[np.float64] = pixels @ color[:, :3].T + color[:, 3]
        if self.mean_matrix is not None:
            values += self.mean_matrix[i].astype(np.float64) @ pixels.mean(axis=(0, 1))
        return to_uint8(values)


@dataclass(frozen=True)
class Table(Step):
    """A lookup table for each channel of each image.

    The native engine and the reference execute it. DALI's operators have no lookup table that differs from
    sample to sample, so that ``engine="auto"`` does not choose DALI for a list of transforms with this step.

    Attributes:
        levels: (N, 3, 256) uint8, what each level of each channel becomes.
    """

    operation: ClassVar[str] = "table"

    levels: npt.NDArray[np.uint8]

    def check(self, n: int) -> None:
        """See :class:`Step`."""
        super().check(n)
        check_array(self, "levels", np.uint8, (n, 3, 256))

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        """See :class:`Step`."""
        return _look_up(pixels, self.levels[i])


@dataclass(frozen=True)
class Posterize(Step):
    """The highest bits of each level stay, the others become 0.

    Attributes:
        bits: (N,) uint8, how many stay, 0 to 8.
    """

    operation: ClassVar[str] = "posterize"

    bits: npt.NDArray[np.uint8]

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        """See :class:`Step`."""
        mask = 0xFF00 >> int(self.bits[i]) & 0xFF
        return np.asarray(pixels & np.uint8(mask))


@dataclass(frozen=True)
class Solarize(Step):
    """Level x becomes 255 - x where it is at least the threshold.

    Attributes:
        threshold: (N,) int16, 0 to 256.
    """

    operation: ClassVar[str] = "solarize"

    threshold: npt.NDArray[np.int16]

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        """See :class:`Step`."""
        return np.where(pixels >= self.threshold[i], 255 - pixels, pixels)


@dataclass(frozen=True)
class Autocontrast(Step):
    """Each channel's range becomes 0..255: ``(x - low) * 255 // (high - low)``, unless it is a single level.

    torchvision computes the same in float32, where an exact result may come out one lower.
    """

    operation: ClassVar[str] = "autocontrast"

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        """See :class:`Step`."""
        return _look_up(pixels, _tables(pixels, _stretched))


@dataclass(frozen=True)
class Equalize(Step):
    """Each channel's histogram becomes flat, as torchvision and Pillow's ``ImageOps.equalize`` do it.

    With h the histogram and s the number of pixels that are not of the highest level, divided by 255
    and truncated, level x becomes ``min((sum(h[:x]) + s // 2) // s, 255)``; nothing changes if s is 0.
    """

    operation: ClassVar[str] = "equalize"

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        """See :class:`Step`."""
        return _look_up(pixels, _tables(pixels, _equalized))


def _look_up(pixels: Pixels, levels: npt.NDArray[np.uint8]) -> Pixels:
    return np.stack([levels[c][pixels[..., c]] for c in range(3)], axis=-1)


def _tables(pixels: npt.NDArray[np.uint8], rule: Rule) -> npt.NDArray[np.uint8]:
    """(3, 256) tables that ``rule`` makes of the histogram, (256,), of each channel of (H, W, 3)."""
    histograms = [np.bincount(pixels[..., c].ravel(), minlength=256) for c in range(3)]
    return np.stack([rule(histogram) for histogram in histograms]).astype(np.uint8)


def _stretched(histogram: Counts) -> npt.NDArray[np.intp]:
    """The table of :class:`stoker.augment.steps.Autocontrast`."""
    low, *_, high = np.flatnonzero(histogram).repeat(2)
    if low == high:
        return np.arange(256)
    return np.asarray(np.clip((np.arange(256) - low) * 255 // (high - low), 0, 255))


def _equalized(histogram: Counts) -> npt.NDArray[np.intp]:
    """The table of :class:`stoker.augment.steps.Equalize`."""
    highest = np.flatnonzero(histogram)[-1]
    quota = (histogram.sum() - histogram[highest]) // 255
    if quota == 0:
        return np.arange(256)
    before = histogram.cumsum() - histogram
    return np.asarray(np.clip((before + quota // 2) // quota, 0, 255))
