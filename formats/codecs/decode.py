"""Decoding of whole images to RGB, and the codecs that each engine decodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stoker import _native

from .codec import Codec
from .header import MAX_PIXELS
from .registry import CODECS, decode_natively


def decode_rgb(
    data: Any, codec: int, height: int, width: int, max_pixels: int = MAX_PIXELS
) -> npt.NDArray[np.uint8]:
    """Decode a payload to (H, W, 3) uint8 RGB, its EXIF orientation applied."""
    row = CODECS[Codec(codec)]
    if not is_native(codec):
        return row.decode(data, height, width, max_pixels)
    try:
        return decode_natively(data, height, width, max_pixels)
    except ValueError:
        if row.strict:
            raise
        return row.decode(data, height, width, max_pixels)  # its errors are the same with every engine


def decode_for_reference(
    data: Any, codec: int, height: int, width: int, max_pixels: int = MAX_PIXELS
) -> npt.NDArray[np.uint8]:
    """Decode a payload in Python, for the reference engine; see :func:`decode_rgb`."""
    return CODECS[Codec(codec)].decode(data, height, width, max_pixels)


def is_native(codec: int) -> bool:
    """Return whether C++ decodes encoded images of this codec; raw pixels need no decoding."""
    return codec in _native.DECODED_CODECS and not CODECS[Codec(codec)].is_raw


def engine_decodes(engine: str, codecs: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Return (N,) bool, whether the engine of this name decodes payloads of (N,) codecs itself.

    It gets the pixels of all other payloads from :func:`decode_rgb`.
    """
    numbers = (
        _native.DECODED_CODECS
        if engine == "native"
        else [codec for codec, row in CODECS.items() if engine in row.engines]
    )
    return np.isin(codecs, numbers)
