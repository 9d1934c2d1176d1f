"""Decoding of whole images to RGB, and the codecs that each engine decodes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from stoker import _native
from stoker.errors import ImageTooLargeError

from .codec import Codec
from .header import MAX_PIXELS
from .npy import decode_npy, read_npy_header
from .registry import (
    CODECS,
    decode_natively,
    exif_orientation,
    has_sixteen_bits,
    open_image,
    to_grey16,
    to_rgb,
    turned,
)


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


Pixels = npt.NDArray[np.uint8]
DeepPixels = npt.NDArray[np.uint8 | np.uint16 | np.float32]

_MODES = {"1": "L", "L": "L", "LA": "LA", "RGBA": "RGBA", "La": "LA", "RGBa": "RGBA", "PA": "RGBA"}
"""The mode that an image of each of Pillow's modes is converted to; all other modes become RGB."""


def decode_grey(data: Any, codec: int, height: int, width: int, max_pixels: int = MAX_PIXELS) -> Pixels:
    """Decode a payload to grey: (H, W, 3) uint8, three equal channels, its EXIF orientation applied.

    Of a JPEG that stores luma (Y of JFIF 1.02), grey is the luma. Of other images it is Pillow's mode "L" of
    RGB, ``(19595 R + 38470 G + 7471 B + 32768) >> 16``, with the weights of ITU-R BT.601.
    """
    shown = Image.fromarray(CODECS[Codec(codec)].decode(data, height, width, max_pixels))
    if codec == Codec.JPEG:
        image = open_image(data)
        if image.mode != "CMYK":
            image.draft("L", image.size)
            shown = turned(image, exif_orientation(data, image))
    return np.repeat(np.asarray(shown.convert("L"))[..., np.newaxis], 3, axis=2)


def decode_channels(
    data: Any, codec: int, height: int, width: int, max_pixels: int = MAX_PIXELS, *, alpha: bool
) -> DeepPixels:
    """Decode a payload to (H, W, C) uint8, or the dtype of its stored form; its EXIF orientation is applied.

    The arguments are those of :func:`.decode.decode_rgb`. With ``alpha``, the result is RGB and alpha, which
    is 255 if the image has none. Otherwise its channels and bits are those of :func:`stored_form`.
    """
    if codec == Codec.NPY and not alpha:
        return decode_npy(data, max_pixels)
    if codec in (Codec.JPEG, Codec.RAW, Codec.PLANES, Codec.NPY):
        rgb = decode_rgb(data, codec, height, width, max_pixels)
        return _with_alpha(rgb) if alpha else rgb[..., : stored_form(data, codec, height, width).channels]
    return _decode_with_pillow(data, max_pixels, alpha)


def _decode_with_pillow(data: Any, max_pixels: int, alpha: bool) -> DeepPixels:
    try:
        with open_image(data) as image:
            if image.width * image.height > max_pixels:
                raise ImageTooLargeError(f"{image.height}x{image.width} pixels")
            orientation, mode = exif_orientation(data, image), _stored_mode(image)
            if alpha and (mode in ("LA", "RGBA") or "transparency" in image.info):
                return np.array(turned(image, orientation).convert("RGBA"))
            if alpha or mode == "RGB":
                rgb = to_rgb(image, orientation)
                return _with_alpha(rgb) if alpha else rgb
            if has_sixteen_bits(image):
                return to_grey16(image, orientation)
            if mode == "L":
                return to_rgb(image, orientation)[..., :1]
            return np.array(turned(image, orientation).convert(mode))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ImageTooLargeError(str(error)) from error


class StoredForm(NamedTuple):
    """The form in which an image is stored."""

    channels: int  # 1 grey, 2 grey and alpha, 3 RGB, 4 RGB and alpha
    bits: int = 8  # Bits of a level: 16 in grey images of 16 bits, as PNG and TIFF may have


def stored_form(data: Any, codec: int, height: int, width: int) -> StoredForm:
    """Return the form in which an image is stored, from its header."""
    if codec == Codec.JPEG:
        return StoredForm(1 if _native.probe(data)[4] == 1 else 3)
    if codec == Codec.RAW:
        return StoredForm(3)
    if codec == Codec.PLANES:
        return StoredForm(1 if memoryview(data).nbytes == height * width else 3)
    if codec == Codec.NPY:
        header = read_npy_header(data)
        return StoredForm(header.shape[2], 8 * header.dtype.itemsize)
    with open_image(data) as image:
        bits = 16 if has_sixteen_bits(image) else 8
        return StoredForm(Image.getmodebands(_stored_mode(image)), bits)


def _stored_mode(image: Image.Image) -> str:
    """Return Pillow's mode for an image with its stored channels."""
    if image.mode == "P":
        return "RGBA" if "transparency" in image.info else "RGB"
    return "L" if image.mode.startswith(("I", "F")) else _MODES.get(image.mode, "RGB")


def _with_alpha(rgb: Pixels) -> Pixels:
    """Return RGB with an opaque fourth channel."""
    rgba = np.full((*rgb.shape[:2], 4), 255, np.uint8)
    rgba[..., :3] = rgb
    return rgba
