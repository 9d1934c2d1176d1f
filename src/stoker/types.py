"""Types that every part of Stoker shares: the size, element type, channels and axes of images."""

from __future__ import annotations

from typing import Literal

Size = tuple[int, int]
"""Height and width, pixels."""

DType = Literal["uint8", "uint16", "float16", "bfloat16", "float32"]
"""Element type of a batch of images; uint16 is for images that are stored with 16 bits."""

Color = Literal["rgb", "gray", "rgba", "as_stored"]
"""Channels of a batch of images: three, one, four, or as many as the stored images have."""

Layout = Literal["NCHW", "NHWC", "NHWC4"]
"""Order of a batch's axes: N images, C channels, height and width; NHWC4 has a zero as its fourth channel."""
