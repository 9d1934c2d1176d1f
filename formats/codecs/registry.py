"""The table of image codecs: a row has all that differs between one codec and another.

The C++ module has another table (``native/decode/codecs.h``), and decodes the codecs in
``_native.DECODED_CODECS``. :mod:`stoker.formats.codecs.decode` chooses between both, so no row here says
whether C++ decodes its codec.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageChops, ImageOps, UnidentifiedImageError
from PIL.TiffImagePlugin import TiffImageFile

from stoker import _native
from stoker.errors import DecodeError, ImageTooLargeError

from .codec import Codec
from .npy import NPY_SIGNATURE, npy_damage, npy_to_rgb

_CUT_OFF = "the file ends before the image does"
_END_OF_IMAGE = b"\xff\xd9"


def jpeg_damage(data: bytes) -> str:
    """Check that a JPEG has an end marker after its pixels."""
    # Cameras append other data after the end marker.
    if data.endswith(_END_OF_IMAGE) or data.find(_END_OF_IMAGE, _start_of_scan(data)) >= 0:
        return ""
    return _CUT_OFF


def _start_of_scan(data: bytes) -> int:
    """Return where the entropy-coded data begin; a thumbnail before them also has an end marker."""
    at = 2
    while 0 <= at < len(data) - 4:
        marker = data[at + 1]
        if data[at] != 0xFF:
            at = data.find(b"\xff", at)
        elif marker in (0x00, 0x01, 0xFF) or 0xD0 <= marker <= 0xD8:
            at += 1 if marker == 0xFF else 2
        elif marker == 0xDA:
            return at
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return len(data)


def png_damage(data: bytes) -> str:
    """Check that no chunk of a PNG ends early, and that all of them match their checksums."""
    at, chunk = 8, b""
    while chunk != b"IEND":
        length, chunk = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        end = at + 8 + length
        if end + 4 > len(data):
            return _CUT_OFF
        if zlib.crc32(memoryview(data)[at + 4 : end]) != int.from_bytes(data[end : end + 4], "big"):
            return f"the checksum of its chunk {chunk.decode('ascii', 'replace')} does not match"
        at = end + 4
    return ""


def webp_damage(data: bytes) -> str:
    """Check that a WebP is as long as its header says."""
    return "" if int.from_bytes(data[4:8], "little") + 8 <= len(data) else _CUT_OFF


_ORIENTATION = 0x0112  # tag of TIFF and Exif

_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def exif_orientation(data: Any, image: Image.Image) -> int:
    """Return the EXIF orientation of an encoded image, which is also opened; 1 to 8, 1 if it has none.

    It is in the EXIF segment of a JPEG, the eXIf chunk of a PNG, the tags of a TIFF, or the EXIF of a WebP or
    an AVIF. Pillow also reads XMP and ImageMagick's "Raw profile type exif". Other decoders, such as DALI's,
    do not, so these do not count here.
    """
    codec, _, _, orientation, _ = _native.probe(data)
    if codec != Codec.OTHER:
        return int(orientation)
    if isinstance(image, TiffImageFile):
        value = image.tag_v2.get(_ORIENTATION, 1)
    else:
        exif = Image.Exif()
        exif.load(image.info.get("exif", b""))
        value = exif.get(_ORIENTATION, 1)
    return int(value) if value in range(1, 9) else 1


def turned(image: Image.Image, orientation: int) -> Image.Image:
    """Return an image, opened and not yet loaded, turned by its EXIF orientation."""
    if isinstance(image, TiffImageFile):  # Pillow turns it when it loads it, by XMP if there is no tag
        image.info.pop("xmp", None)
        return ImageOps.exif_transpose(image)
    return image.transpose(_TURNS[orientation]) if orientation in _TURNS else image


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
