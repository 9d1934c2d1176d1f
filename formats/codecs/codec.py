"""Numbers of image codecs, as the index column ``codec`` has them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum


class Codec(IntEnum):
    """How a payload is encoded."""

    RAW = 0
    """``height * width * 3`` bytes, RGB, rows from the top, no padding."""
    JPEG = 1
    PNG = 2
    WEBP = 3
    BMP = 4
    GIF = 5
    TIFF = 6
    PLANES = 7
    """(channels, height, width) uint8, as in Caffe's Datum: one grey plane, or blue, green and red."""
    NPY = 8
    """An array of NumPy: (H, W, C) or (H, W), uint8, uint16 or float32."""
    OTHER = 255


def is_pixel_shape(shape: Sequence[int]) -> bool:
    """Return whether raw pixels may have a shape: height and width, and perhaps one or three channels."""
    return len(shape) in (2, 3) and min(shape) > 0 and (*shape, 1)[2] in (1, 3)
