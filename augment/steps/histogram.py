"""Lookup tables that follow from an image's own histogram, for Autocontrast and Equalize."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Counts = npt.NDArray[np.intp]
    Rule = Callable[[Counts], npt.NDArray[np.intp]]

__all__ = ["equalized", "stretched", "tables"]


def tables(pixels: npt.NDArray[np.uint8], rule: Rule) -> npt.NDArray[np.uint8]:
    """(3, 256) tables that ``rule`` makes of the histogram, (256,), of each channel of (H, W, 3)."""
    histograms = [np.bincount(pixels[..., c].ravel(), minlength=256) for c in range(3)]
    return np.stack([rule(histogram) for histogram in histograms]).astype(np.uint8)


def stretched(histogram: Counts) -> npt.NDArray[np.intp]:
    """The table of :class:`stoker.augment.steps.Autocontrast`."""
    low, *_, high = np.flatnonzero(histogram).repeat(2)
    if low == high:
        return np.arange(256)
    return np.asarray(np.clip((np.arange(256) - low) * 255 // (high - low), 0, 255))


def equalized(histogram: Counts) -> npt.NDArray[np.intp]:
    """The table of :class:`stoker.augment.steps.Equalize`."""
    highest = np.flatnonzero(histogram)[-1]
    quota = (histogram.sum() - histogram[highest]) // 255
    if quota == 0:
        return np.arange(256)
    before = histogram.cumsum() - histogram
    return np.asarray(np.clip((before + quota // 2) // quota, 0, 255))
