"""Masks as the run lengths of COCO (common/maskApi.c of cocodataset/cocoapi).

The pixels of a mask are read column by column. The lengths of its runs of equal pixels alternate between
background and object. The first run is background, and may be empty.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Runs = npt.NDArray[np.uint32]

_MOST_DIGITS = 7  # of five bits: more than any run length has
_LONGEST = (1 << 32) - 1


def decompress_runs(text: str) -> Runs:
    """Return the (R,) uint32 run lengths in a compressed text, such as ``counts`` of a COCO RLE.

    A number has digits of five bits, the lowest first. Each digit is one character from "0" on, plus 32 if
    another digit follows; bit 4 of the last digit is the sign. From the fourth number on, each is the
    difference to the number two before it.
    """
    digits = np.frombuffer(text.encode(), np.uint8).astype(np.int64) - 48
    if not len(digits):
        return np.zeros(0, np.uint32)
    if digits.min() < 0 or digits.max() > 63 or digits[-1] & 32:
        raise ValueError("run lengths that are no compressed RLE")
    ends = np.flatnonzero(digits & 32 == 0)
    starts = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - starts + 1
    if lengths.max() > _MOST_DIGITS:
        raise ValueError("run lengths that are too large")
    shift = 5 * (np.arange(len(digits)) - np.repeat(starts, lengths))
    values = np.add.reduceat((digits & 31) << shift, starts)
    values -= np.where(digits[ends] & 16, 1 << 5 * lengths, 0)
    values[1::2] = np.cumsum(values[1::2])
    values[2::2] = np.cumsum(values[2::2])
    return checked_runs(values)


def checked_runs(values: npt.ArrayLike) -> Runs:
    """Return run lengths as (R,) uint32."""
    runs = np.asarray(values)
    if runs.ndim != 1 or (runs.size and runs.dtype.kind not in "iu"):
        raise ValueError("run lengths that are no integers")
    if runs.size and not 0 <= runs.min() <= runs.max() <= _LONGEST:
        raise ValueError("run lengths that are negative or too large")
    return runs.astype(np.uint32)


def mask_of_runs(runs: npt.NDArray[np.integer], height: int, width: int) -> npt.NDArray[np.bool_]:
    """Return the mask of run lengths, (height, width) bool."""
    lengths = np.asarray(runs, np.int64)
    if int(lengths.sum()) != height * width:
        raise ValueError(f"run lengths of {int(lengths.sum())} pixels where the image has {height * width}")
    pixels = np.repeat(np.arange(len(lengths)) % 2 == 1, lengths)
    return np.asarray(pixels.reshape(width, height).T)


def runs_of_mask(mask: npt.NDArray[np.bool_]) -> Runs:
    """Return the run lengths, (R,) uint32, of a mask, (H, W) bool."""
    pixels = mask.ravel(order="F")
    changes = np.flatnonzero(pixels[1:] != pixels[:-1]) + 1
    bounds = np.concatenate(([0], changes, [len(pixels)]))
    if len(pixels) and pixels[0]:
        bounds = np.concatenate(([0], bounds))
    return np.diff(bounds).astype(np.uint32)
