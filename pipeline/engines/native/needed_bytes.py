"""The bytes of payloads that the native engine needs, which the read-ahead asks the kernel for.

For a JPEG with restart markers, these are its headers and the bands of its crops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stoker.augment.params import ImageParams
from stoker.formats.dataset.index import Samples

Int64 = npt.NDArray[np.int64]

GAP = 16 << 10
"""Bytes that an SSD reads in about the time of one more request."""

_MCU_HEIGHTS = (8, 16)  # the index does not say which one an image has


class ByteRanges(NamedTuple):
    """Ranges of bytes of data files."""

    shard: npt.NDArray[np.int32]  # (M,) int32, index of the data file
    offset: Int64  # (M,) int64, first byte
    length: Int64  # (M,) int64, number of bytes


def needed_bytes(samples: Samples, columns: Sequence[ImageParams]) -> ByteRanges:
    """Return the bytes that images need: parts of JPEGs with bands, other payloads whole."""
    whole = ByteRanges(samples.shard, samples.offset, samples.length)
    if samples.bands is None or not samples.bands.size or not columns:
        return whole
    starts = samples.bands[:, ::2].astype(np.int64)
    count = np.count_nonzero(starts[:, 1:], axis=1)  # the headers begin at 0
    at = np.flatnonzero((count > 1) & (samples.orientation == 1))
    count, starts = count[at], np.column_stack((starts[at], np.zeros(len(at), np.int64)))
    starts[np.arange(len(at)), count + 1] = samples.length[at]
    first, last = _bands(samples.height[at], count, *_rows(samples, columns, at))
    begin, end = (np.take_along_axis(starts, band[:, None] + 1, 1)[:, 0] for band in (first, last))
    offset, length = whole.offset.copy(), whole.length.copy()
    offset[at] += begin
    length[at] = end - begin
    return ByteRanges(
        np.concatenate((whole.shard, whole.shard[at])),
        np.concatenate((offset, whole.offset[at])),
        np.concatenate((length, starts[:, 1])),
    )


def _rows(samples: Samples, columns: Sequence[ImageParams], at: Int64) -> tuple[Int64, Int64]:
    """The rows of pixels that the images of samples need: the first, and the one after the last."""
    top = np.full(len(at), np.iinfo(np.int64).max)
    bottom = np.zeros(len(at), np.int64)
    for params in columns:
        crop = params.crop.reshape(-1, len(samples), 4)[:, at].astype(np.int64)
        # Rows beside the crop, of the size at which it is decoded, that colour upsampling looks at.
        height: npt.NDArray[np.integer[Any]] = np.array(params.size[0])
        if params.image_size is not None:
            height = params.image_size[:, 0].reshape(-1, len(samples))[:, at]
        margin = 4 + 2 * (crop[..., 2] // height)
        top = np.minimum(top, (crop[..., 0] - margin).min(0))
        bottom = np.maximum(bottom, (crop[..., 0] + crop[..., 2] + margin).max(0))
    return np.maximum(top, 0), np.minimum(bottom, samples.height[at])


def _bands(height: npt.NDArray[np.int32], count: Int64, top: Int64, bottom: Int64) -> tuple[Int64, Int64]:
    """The bands [first, last) that hold rows of pixels; see ``Bands`` in native/restarts/bands.h."""
    first, last = count.copy(), np.zeros_like(count)
    for mcu in _MCU_HEIGHTS:
        rows = (height + mcu - 1) // mcu
        per_band = mcu * ((rows + count - 1) // count)
        first = np.minimum(first, top // per_band)
        last = np.maximum(last, (bottom - 1) // per_band + 1)
    return np.minimum(first, count - 1), np.clip(last, 1, count)
