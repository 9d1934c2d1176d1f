"""Image codecs: numbers of the index column ``codec``, their table, and what a header says of an image.

C++ has another table (``native/decode/codecs.h``) and decodes the codecs in ``_native.DECODED_CODECS``.
This module loads neither NumPy nor Pillow, because the help of the command line needs it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from stoker import _native
from stoker.errors import SourceError

if TYPE_CHECKING:  # the help of the command line loads no NumPy
    import numpy as np
    import numpy.typing as npt

MAX_PIXELS = 178_956_970
"""Most pixels of an image that is decoded: Pillow's limit, 512 MiB of RGB."""

SIGNATURE_BYTES = 32
"""Bytes at the start of a file that :func:`is_image_start` needs."""

NPY_SIGNATURE = b"\x93NUMPY"

HEIC_SIGNATURE = re.compile(rb".{4}ftyp(?:hei[cmsx]|hev[cmsx]|m[is]f1(?!.*avi[fs]))", re.DOTALL)
"""The first bytes of a HEIC file: its brand (ISO/IEC 23008-12, annex B)."""


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


@dataclass(frozen=True, kw_only=True)
class ImageCodec:
    """The properties of a codec; :mod:`.header` checks files for damage, and :mod:`.decode` decodes them."""

    # Names of the engines, besides the native one, that decode payloads themselves
    engines: frozenset[str] = frozenset()
    pillow_formats: tuple[str, ...] = ()  # Pillow's names of the formats that this codec stands for
    suffixes: tuple[str, ...] = ()  # Suffixes of such files, in lower case
    signature: bytes | None = None  # A regular expression for the first :data:`SIGNATURE_BYTES` of such files
    # Bytes that a pixel of a raw payload may have: 1, 3 or both; empty for encoded images
    bytes_of_pixel: tuple[int, ...] = ()
    # Whether C++ refuses damage that Pillow does not see, so that the error of C++ counts
    strict: bool = False
    lossy: bool = False  # Whether encoding changes pixels; masks may not use it
    # Whether a resized image is stored as JPEG if its encoding is kept; otherwise as PNG
    resized_as_jpeg: bool = False
    # Average of photographs, to plan the sizes of shards; 0 for codecs that are only read
    bytes_per_pixel: float = 0.0


CODECS: dict[Codec, ImageCodec] = {
    Codec.JPEG: ImageCodec(
        engines=frozenset({"dali"}),
        pillow_formats=("JPEG", "MPO"),
        suffixes=(".jpg", ".jpeg"),
        signature=rb"\xff\xd8\xff",
        strict=True,
        lossy=True,
        resized_as_jpeg=True,
        bytes_per_pixel=0.3,
    ),
    Codec.PNG: ImageCodec(
        pillow_formats=("PNG",), suffixes=(".png",), signature=rb"\x89PNG\r\n\x1a\n", bytes_per_pixel=1.2
    ),
    Codec.WEBP: ImageCodec(
        pillow_formats=("WEBP",), suffixes=(".webp",), signature=rb"RIFF.{4}WEBP", resized_as_jpeg=True
    ),
    Codec.BMP: ImageCodec(pillow_formats=("BMP", "DIB"), suffixes=(".bmp",), signature=rb"BM"),
    Codec.GIF: ImageCodec(pillow_formats=("GIF",), suffixes=(".gif",), signature=rb"GIF8[79]a"),
    Codec.TIFF: ImageCodec(
        pillow_formats=("TIFF",), suffixes=(".tif", ".tiff"), signature=rb"II[*+]\0|MM\0[*+]"
    ),
    Codec.RAW: ImageCodec(bytes_of_pixel=(3,), bytes_per_pixel=3.0),
    Codec.PLANES: ImageCodec(bytes_of_pixel=(1, 3)),
    # No suffix: an array beside images is not an image.
    Codec.NPY: ImageCodec(signature=re.escape(NPY_SIGNATURE)),
    # PPM, JPEG 2000 as a file or a codestream, AVIF and HEIC.
    Codec.OTHER: ImageCodec(
        pillow_formats=("PPM", "JPEG2000", "AVIF", "HEIF"),
        suffixes=(".avif", ".jp2", ".heic", ".heif"),
        signature=HEIC_SIGNATURE.pattern
        + rb"|P[1-6]|\0\0\0\x0cjP  \r\n\x87\n|\xff\x4f\xff\x51|.{4}ftyp.*avi",
    ),
}

PILLOW_CODECS = {name: codec for codec, row in CODECS.items() for name in row.pillow_formats}
"""The codec of each format that Pillow may open."""

BYTES_PER_PIXEL = {"keep": CODECS[Codec.JPEG].bytes_per_pixel} | {
    codec.name.lower(): row.bytes_per_pixel for codec, row in CODECS.items() if row.bytes_per_pixel
}
"""Values of the option ``encoding``, with the average bytes of a pixel of photographs."""

_SIGNATURES = re.compile(b"|".join(row.signature for row in CODECS.values() if row.signature), re.DOTALL)


def is_image_start(start: bytes) -> bool:
    """Return whether a file with these first bytes, :data:`SIGNATURE_BYTES` or all of it, may be an image."""
    return _SIGNATURES.match(start) is not None


def is_pixel_shape(shape: Sequence[int]) -> bool:
    """Return whether raw pixels may have a shape: height and width, and perhaps one or three channels."""
    return len(shape) in (2, 3) and min(shape) > 0 and (*shape, 1)[2] in (1, 3)


class ImageHeader(NamedTuple):
    """The header of an encoded image."""

    codec: Codec  # Its codec
    height: int  # Pixels, after the EXIF orientation has been applied
    width: int  # Pixels, after the EXIF orientation has been applied
    orientation: int  # EXIF orientation, 1 to 8; 1 if it has none


def raw_header(length: int, shape: tuple[int, ...], *, any_channels: bool = False) -> ImageHeader:
    """Return the header of raw pixels in a record of another program, uint8, rows from the top."""
    # ``shape`` has height and width, and perhaps channels. With ``any_channels`` it has none, and the length
    # decides between one and three.
    fitting = [channels for channels in (3, 1) if prod(shape) * channels == length]
    if any_channels and fitting:
        shape = (*shape, fitting[0])
    words = " x ".join(map(str, shape))
    if not is_pixel_shape(shape) or prod(shape) != length:
        kinds = "neither grey nor RGB of" if any_channels else "not"
        raise SourceError(
            f"{length} bytes of raw pixels are {kinds} {words} pixels of 8 bits",
            hint="Name another shape, or the parts of the record that hold height and width.",
        )
    height, width, channels = (*shape, 1)[:3]
    if height * width > MAX_PIXELS:
        raise SourceError(
            f"the image has {words} pixels, more than {MAX_PIXELS}",
            hint="Check the size that is stated for it.",
        )
    return ImageHeader(Codec.RAW if channels == 3 else Codec.PLANES, height, width, 1)


def is_native(codec: int) -> bool:
    """Return whether C++ decodes encoded images of this codec; raw pixels need no decoding."""
    return codec in _native.DECODED_CODECS and not CODECS[Codec(codec)].bytes_of_pixel


def engine_decodes(engine: str, codecs: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Return (N,) bool, whether the engine of this name decodes payloads of (N,) codecs itself."""
    # It gets the pixels of all other payloads from :func:`.decode.decode_rgb`.
    import numpy as np

    native, others = _native.DECODED_CODECS, [codec for codec, row in CODECS.items() if engine in row.engines]
    return np.isin(codecs, native if engine == "native" else others)


class StoredForm(NamedTuple):
    """The form in which an image is stored."""

    channels: int  # 1 grey, 2 grey and alpha, 3 RGB, 4 RGB and alpha
    bits: int = 8  # Bits of a level: 16 in grey images of 16 bits, as PNG and TIFF may have
