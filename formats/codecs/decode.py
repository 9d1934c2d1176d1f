"""Whole images as RGB pixels: each codec by the decoder that the native engine has for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import ImageOps

from stoker import _native
from stoker.errors import DecodeError

from .codec import Codec
from .header import MAX_PIXELS, open_image

if TYPE_CHECKING:
    import numpy.typing as npt
    from PIL import Image

__all__ = ["decode_other", "decode_rgb", "from_planes", "to_rgb"]

# Pillow's modes of 16 bits; it has no colours of so many, and takes their higher bytes by itself. Before
# version 11 it calls the greys of some formats "I", which elsewhere are 32 bits.
_SIXTEEN_BITS = ("I;16", "I;16L", "I;16B", "I;16N")
_SIXTEEN_BITS_AS_I = ("PNG", "PPM", "JPEG2000")


def decode_rgb(data: Any, codec: Codec, height: int, width: int) -> npt.NDArray[np.uint8]:
    """Decode a payload: (H, W, 3) uint8 RGB, its EXIF orientation applied.

    Args:
        data: Any C-contiguous buffer.
        codec: How it is encoded.
        height: Pixels, which raw pixels do not say of themselves.
        width: Likewise.

    Raises:
        Exception: As Pillow's decoders do on damaged images: almost anything.
    """
    if codec == Codec.JPEG:
        data, height, width = _native.transcode(data, "none", 0, 0, "raw", 90, "420", MAX_PIXELS)
    elif codec == Codec.PLANES:
        return from_planes(data, height, width)
    elif codec != Codec.RAW:
        return decode_other(data)
    return np.frombuffer(data, np.uint8).reshape(height, width, 3)


def decode_other(data: Any) -> npt.NDArray[np.uint8]:
    """Decode an image with Pillow, of an animation the first frame; see :func:`decode_rgb`."""
    with open_image(data) as image:
        return to_rgb(image)


def from_planes(data: Any, height: int, width: int) -> npt.NDArray[np.uint8]:
    """(H, W, 3) uint8 RGB of the pixels that Caffe's Datum holds: one plane, grey, or blue, green and red.

    Raises:
        ValueError: The bytes are neither.
    """
    planes = np.frombuffer(data, np.uint8).reshape(-1, height, width)
    if len(planes) not in (1, 3):
        raise ValueError(f"{len(planes)} planes of {height} x {width} pixels, not 1 or 3")
    return np.ascontiguousarray(np.broadcast_to(planes[::-1], (3, height, width)).transpose(1, 2, 0))


def to_rgb(image: Image.Image) -> npt.NDArray[np.uint8]:
    """Pixels of an opened image: (H, W, 3) uint8 RGB, its EXIF orientation applied.

    Of 16 bits the higher 8 are taken, as Pillow does for colours; its own conversion of 16-bit grey makes
    all but the darkest 256 levels white. Transparency is left out.

    Raises:
        DecodeError: The pixels are integers of 32 bits or floats, of which nobody knows what is white.
    """
    turned = ImageOps.exif_transpose(image)
    if turned.mode in _SIXTEEN_BITS or (turned.mode == "I" and image.format in _SIXTEEN_BITS_AS_I):
        grey = (np.asarray(turned).astype(np.uint16) >> 8).astype(np.uint8)
        return np.repeat(grey[..., np.newaxis], 3, axis=2)
    if turned.mode in ("I", "F"):
        kind = "integers of 32 bits" if turned.mode == "I" else "floats"
        raise DecodeError(f"the pixels are {kind}, of which nothing says what is black and white")
    return np.array(turned.convert("RGB"))
