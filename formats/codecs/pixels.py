"""Pixels of decoded images as RGB."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageChops

from stoker.errors import DecodeError

from .orientation import turned

# Pillow's modes of 16-bit grey. Of 16-bit colours it takes the higher bytes by itself. Before version 11 it
# gives 16-bit grey of some formats the mode "I", which otherwise has 32 bits.
_SIXTEEN_BITS = ("I;16", "I;16L", "I;16B", "I;16N")
_SIXTEEN_BITS_AS_I = ("PNG", "PPM", "JPEG2000")


class PixelCountError(ValueError):
    """Raw pixels are more or fewer than the index says."""


def raw_to_rgb(data: Any, height: int, width: int) -> npt.NDArray[np.uint8]:
    """Return a view of raw pixels as (H, W, 3) uint8 RGB."""
    pixels = np.frombuffer(data, np.uint8)
    if pixels.size != height * width * 3:
        raise PixelCountError("the image has another size than the index says")
    return pixels.reshape(height, width, 3)


def planes_to_rgb(data: Any, height: int, width: int) -> npt.NDArray[np.uint8]:
    """Return the pixels of Caffe's Datum as (H, W, 3) uint8 RGB.

    One plane is grey, and three are blue, green and red.
    """
    planes = np.frombuffer(data, np.uint8).reshape(-1, height, width)
    if len(planes) not in (1, 3):
        raise ValueError(f"{len(planes)} planes of {height} x {width} pixels, not 1 or 3")
    return np.ascontiguousarray(np.broadcast_to(planes[::-1], (3, height, width)).transpose(1, 2, 0))


def has_sixteen_bits(image: Image.Image) -> bool:
    """Return whether an opened image is grey of 16 bits."""
    return image.mode in _SIXTEEN_BITS or (image.mode == "I" and image.format in _SIXTEEN_BITS_AS_I)


def to_grey16(image: Image.Image, orientation: int) -> npt.NDArray[np.uint16]:
    """Return the pixels of an opened 16-bit grey image, (H, W, 1), turned by its orientation."""
    return np.asarray(turned(image, orientation)).astype(np.uint16)[..., np.newaxis]


def to_rgb(image: Image.Image, orientation: int) -> npt.NDArray[np.uint8]:
    """Return the pixels of an opened image as (H, W, 3) uint8 RGB, turned by its EXIF orientation.

    Of 16 bits the higher 8 are taken, as Pillow does for colours. Its conversion of 16-bit grey makes all but
    the darkest 256 levels white. Transparency is left out.
    """
    shown = turned(image, orientation)
    if has_sixteen_bits(image):
        grey = (np.asarray(shown).astype(np.uint16) >> 8).astype(np.uint8)
        return np.repeat(grey[..., np.newaxis], 3, axis=2)
    if shown.mode in ("I", "F"):
        numbers = "integers of 32 bits" if shown.mode == "I" else "floats"
        raise DecodeError(f"the pixels are {numbers}, and nothing says which values are black and white")
    if shown.mode == "CMYK" and image.format in ("JPEG", "MPO") and "adobe" not in image.info:
        shown = ImageChops.invert(shown)  # Pillow assumes Adobe's inverted inks in every CMYK JPEG
    return np.array(shown.convert("RGB"))
