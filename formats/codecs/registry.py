"""The table of image codecs: a row has all that differs between one codec and another.

The C++ module has another table (``native/decode/codecs.h``), and decodes the codecs in
``_native.DECODED_CODECS``. :mod:`stoker.formats.codecs.decode` chooses between both, so no row here says
whether C++ decodes its codec.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from stoker import _native
from stoker.errors import DecodeError, ImageTooLargeError

from .codec import Codec
from .damage import jpeg_damage, png_damage, webp_damage
from .npy import NPY_SIGNATURE, npy_damage, npy_to_rgb
from .orientation import exif_orientation
from .pixels import planes_to_rgb, raw_to_rgb, to_rgb

Decode = Callable[[Any, int, int, int], npt.NDArray[np.uint8]]

_MASK_FORMATS = ("PNG", "TIFF", "BMP", "DIB", "GIF", "PPM", "JPEG2000")
"""Pillow's names of the formats that keep the values of a mask, and can have one number for each pixel."""

SIGNATURE_BYTES = 32
"""Bytes at the start of a file that :func:`is_image_start` needs."""

_HEIC = re.compile(rb".{4}ftyp(?:hei[cmsx]|hev[cmsx]|mif1|msf1)", re.DOTALL)
"""The first bytes of a HEIC file: its brand (ISO/IEC 23008-12, annex B)."""


@dataclass(frozen=True, kw_only=True)
class ImageCodec:
    """One codec."""

    # Decodes a payload in Python, given the payload, the height and width of the index, and the most pixels
    decode: Decode
    # Names of the engines, besides the native one, that decode payloads themselves
    engines: frozenset[str] = frozenset()
    pillow_formats: tuple[str, ...] = ()  # Pillow's names of the formats that this codec stands for
    suffixes: tuple[str, ...] = ()  # Suffixes of such files, in lower case
    signature: bytes | None = None  # A regular expression for the first :data:`SIGNATURE_BYTES` of such files
    # Bytes that a pixel of a raw payload may have: 1, 3 or both; empty for encoded images
    bytes_of_pixel: tuple[int, ...] = ()
    # Returns the problem of a file that is not whole, without decoding it
    damage: Callable[[bytes], str] | None = None
    # Returns the bits of a pixel of a grey image, 0 for other images
    grey_bits: Callable[[bytes], int] | None = None
    # Whether C++ refuses damage that Pillow does not see, so that the error of C++ counts
    strict: bool = False
    lossy: bool = False  # Whether encoding changes pixels; masks may not use it
    # Whether a resized image is stored as JPEG if its encoding is kept; otherwise as PNG
    resized_as_jpeg: bool = False
    # What C++ returns for this target: a finished JPEG, or raw pixels, which ``compress`` encodes if it is
    # given. None for codecs that are only read
    written_as: Literal["jpeg", "raw"] | None = None
    # Encodes raw pixels, given bytes, height and width; None if they stay raw
    compress: Callable[[bytes, int, int], bytes] | None = None
    # Average of photographs in a codec that is written, to plan the sizes of shards
    bytes_per_pixel: float = 0.0

    @property
    def is_raw(self) -> bool:
        """Whether payloads are pixels, not encoded images."""
        return bool(self.bytes_of_pixel)


def open_image(data: Any) -> Image.Image:
    """Open an encoded image, any C-contiguous buffer, with Pillow, which reads its header.

    Only formats of the registry are opened, and none that runs another program, such as EPS. No other code
    calls Pillow's ``Image.open``, which opens any format.
    """
    if _HEIC.match(bytes(memoryview(data)[:SIGNATURE_BYTES])):
        _register_heic()
    return Image.open(io.BytesIO(data), formats=_pillow_formats())


def _register_heic() -> None:
    """Let Pillow open HEIC by the package pillow-heif; DecodeError if it is not installed."""
    try:
        import pillow_heif
    except ImportError as error:
        raise DecodeError(
            "HEIC needs pillow-heif, which is not installed: pip install pillow-heif"
        ) from error
    if "HEIF" not in _pillow_formats():
        pillow_heif.register_heif_opener()
        _pillow_formats.cache_clear()


def open_mask(data: Any) -> Image.Image:
    """Open an encoded mask with Pillow; see :func:`open_image`."""
    known = [name for name in _MASK_FORMATS if name in _pillow_formats()]
    try:
        return Image.open(io.BytesIO(data), formats=known)
    except UnidentifiedImageError as error:
        raise ValueError(f"it is damaged, or in none of the formats of masks: {', '.join(known)}") from error


@cache
def _pillow_formats() -> tuple[str, ...]:
    """Return the known formats that this build of Pillow can open."""
    Image.init()
    return tuple(name for name in PILLOW_CODECS if name in Image.OPEN)


def _check_size(height: int, width: int, max_pixels: int) -> None:
    if height * width > max_pixels:
        raise ImageTooLargeError(f"{height}x{width} pixels")


def _decode_with_pillow(data: Any, height: int, width: int, max_pixels: int) -> npt.NDArray[np.uint8]:
    """Decode an image of any format of Pillow; of an animation the first frame."""
    try:
        with open_image(data) as image:
            _check_size(image.height, image.width, max_pixels)
            return to_rgb(image, exif_orientation(data, image))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ImageTooLargeError(str(error)) from error


def decode_natively(data: Any, height: int, width: int, max_pixels: int) -> npt.NDArray[np.uint8]:
    """Decode an image of a codec that has a header, in C++; see :attr:`ImageCodec.decode`."""
    _check_size(height, width, max_pixels)
    payload, height, width = _native.transcode(data, "none", 0, 0, "raw", 90, "420", max_pixels)
    return raw_to_rgb(payload, height, width)


def _decode_jpeg(data: Any, height: int, width: int, max_pixels: int) -> npt.NDArray[np.uint8]:
    """Decode with Pillow, and refuse a JPEG that lacks pixels, which Pillow silently makes grey."""
    pixels = _decode_with_pillow(data, height, width, max_pixels)
    decode_natively(data, height, width, max_pixels)
    return pixels


def _decode_raw(data: Any, height: int, width: int, max_pixels: int) -> npt.NDArray[np.uint8]:
    _check_size(height, width, max_pixels)
    return raw_to_rgb(data, height, width)


def _decode_planes(data: Any, height: int, width: int, max_pixels: int) -> npt.NDArray[np.uint8]:
    _check_size(height, width, max_pixels)
    return planes_to_rgb(data, height, width)


def _compress_png(pixels: bytes, height: int, width: int) -> bytes:
    stream = io.BytesIO()
    Image.frombytes("RGB", (width, height), pixels).save(stream, "PNG")
    return stream.getvalue()


def _png_grey_bits(data: bytes) -> int:
    """Return the bit depth if the colour type is 0, grey (PNG 1.2, 4.1.1)."""
    bits, colour_type = data[24:26]
    return 0 if colour_type else bits


CODECS: dict[Codec, ImageCodec] = {
    Codec.JPEG: ImageCodec(
        decode=_decode_jpeg,
        engines=frozenset({"dali"}),
        pillow_formats=("JPEG", "MPO"),
        suffixes=(".jpg", ".jpeg"),
        signature=rb"\xff\xd8\xff",
        damage=jpeg_damage,
        strict=True,
        lossy=True,
        resized_as_jpeg=True,
        written_as="jpeg",
        bytes_per_pixel=0.3,
    ),
    Codec.PNG: ImageCodec(
        decode=_decode_with_pillow,
        pillow_formats=("PNG",),
        suffixes=(".png",),
        signature=rb"\x89PNG\r\n\x1a\n",
        damage=png_damage,
        grey_bits=_png_grey_bits,
        written_as="raw",
        compress=_compress_png,
        bytes_per_pixel=1.2,
    ),
    Codec.WEBP: ImageCodec(
        decode=_decode_with_pillow,
        pillow_formats=("WEBP",),
        suffixes=(".webp",),
        signature=rb"RIFF.{4}WEBP",
        damage=webp_damage,
        resized_as_jpeg=True,
    ),
    Codec.BMP: ImageCodec(
        decode=_decode_with_pillow, pillow_formats=("BMP", "DIB"), suffixes=(".bmp",), signature=rb"BM"
    ),
    Codec.GIF: ImageCodec(
        decode=_decode_with_pillow, pillow_formats=("GIF",), suffixes=(".gif",), signature=rb"GIF8[79]a"
    ),
    Codec.TIFF: ImageCodec(
        decode=_decode_with_pillow,
        pillow_formats=("TIFF",),
        suffixes=(".tif", ".tiff"),
        signature=rb"II\*\0|MM\0\*",
    ),
    Codec.RAW: ImageCodec(decode=_decode_raw, bytes_of_pixel=(3,), written_as="raw", bytes_per_pixel=3.0),
    Codec.PLANES: ImageCodec(decode=_decode_planes, bytes_of_pixel=(1, 3)),
    # No suffix: an array beside images is not an image, see formats/sources/folders/suffixes.py.
    Codec.NPY: ImageCodec(decode=npy_to_rgb, signature=re.escape(NPY_SIGNATURE), damage=npy_damage),
    # PPM, JPEG 2000 as a file or a codestream, AVIF and HEIC.
    Codec.OTHER: ImageCodec(
        decode=_decode_with_pillow,
        pillow_formats=("PPM", "JPEG2000", "AVIF", "HEIF"),
        suffixes=(".avif", ".jp2", ".heic", ".heif"),
        signature=_HEIC.pattern + rb"|P[1-6]|\0\0\0\x0cjP  \r\n\x87\n|\xff\x4f\xff\x51|.{4}ftyp.*avi",
    ),
}

PILLOW_CODECS = {name: codec for codec, row in CODECS.items() for name in row.pillow_formats}
"""The codec of each format that Pillow may open."""

_SIGNATURES = re.compile(b"|".join(row.signature for row in CODECS.values() if row.signature), re.DOTALL)


def is_image_start(start: bytes) -> bool:
    """Return whether a file with these first bytes, :data:`SIGNATURE_BYTES` or all of it, may be an image."""
    return _SIGNATURES.match(start) is not None
