"""Headers of encoded images: codec, size, orientation and damage, read without decoding a pixel.

The only module that opens images with Pillow.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

from PIL import Image, ImageOps, UnidentifiedImageError
from PIL.TiffImagePlugin import TiffImageFile

from stoker import _native
from stoker.errors import DecodeError, ImageTooLargeError

from .codec import (
    HEIC_SIGNATURE,
    MAX_PIXELS,
    NPY_SIGNATURE,
    PILLOW_CODECS,
    SIGNATURE_BYTES,
    Codec,
    ImageHeader,
)
from .npy import npy_damage, read_npy_header

_WIDTH, _HEIGHT, _ORIENTATION = 0x0100, 0x0101, 0x0112  # tags of TIFF and Exif
_PHOTOMETRIC = 0x0106
_WHITE_IS_ZERO = b"\1\6\0\3\0\0\0\1\0\0"  # entry of a big-endian TIFF: this tag, a number of 16 bits, 0
_IS_NEGATIVE = "is_negative"
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_MASK_FORMATS = ("PNG", "TIFF", "BMP", "DIB", "GIF", "PPM", "JPEG2000")
"""Pillow's names of the formats that keep the values of a mask, and can have one number for each pixel."""

_STARTS = (1 << 10, 8 << 10, 64 << 10, 1 << 20)  # a camera's EXIF has up to 64 KiB
_TAIL = 2 << 10  # an eXIf chunk after the pixels is shorter, unless it holds a thumbnail
_JPEG = b"\xff\xd8\xff"
_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_SAMPLES = {2: 3, 4: 2, 6: 4}  # of a pixel, by colour type; 1 in grey and palettes (PNG 1.2, 4.1.1)
_PNG_PASSES = (  # of an interlaced image: the first column and row, and the steps to the next (PNG 1.2, 2.6)
    (0, 0, 8, 8),
    (4, 0, 8, 8),
    (0, 4, 4, 8),
    (2, 0, 4, 4),
    (0, 2, 2, 4),
    (1, 0, 2, 2),
    (0, 1, 1, 2),
)
_HAS_EXIF, _IS_ANIMATED = 0x08, 0x02  # flags of VP8X
_END_OF_JPEG = b"\xff\xd9"
HEIC_MISSING = "HEIC needs pillow-heif, which is not installed: pip install pillow-heif"
_CUT_OFF = "the file ends before the image does"


def reads_heic() -> bool:
    """Whether the package that reads HEIC is installed."""
    return find_spec("pillow_heif") is not None


def needed_package(error: BaseException) -> str | None:
    """What to install for an image, if the error of opening it says that a package is missing."""
    return str(error) if isinstance(error.__cause__, ImportError) else None


def open_image(data: Any) -> Image.Image:
    """Open an encoded image, any C-contiguous buffer, with Pillow, which reads its header."""
    # Only formats of the table of codecs are opened, and none that runs another program, such as EPS.
    if HEIC_SIGNATURE.match(bytes(memoryview(data)[:SIGNATURE_BYTES])) and "HEIF" not in _pillow_formats():
        try:
            import pillow_heif
        except ImportError as error:
            raise DecodeError(HEIC_MISSING) from error
        pillow_heif.register_heif_opener()
        _pillow_formats.cache_clear()
    try:
        return Image.open(io.BytesIO(data), formats=_pillow_formats())
    except UnidentifiedImageError:
        if (other := _with_black_as_zero(data)) is None:
            raise
        image = Image.open(io.BytesIO(other), formats=["TIFF"])
        image.info[_IS_NEGATIVE] = True
        return image


def _with_black_as_zero(data: Any) -> bytes | None:
    """Return a big-endian TIFF of 16 bits whose 0 is white as one whose 0 is black; None for other data."""
    # Pillow reads the second and not the first.
    view = memoryview(data)
    if bytes(view[:4]) == b"MM\0*":
        start = int.from_bytes(view[4:8], "big")
        for at in range(start + 2, start + 2 + 12 * int.from_bytes(view[start : start + 2], "big"), 12):
            if bytes(view[at : at + 10]) == _WHITE_IS_ZERO:
                return b"".join((view[: at + 9], b"\1", view[at + 10 :]))
    return None


def is_negative(image: Image.Image) -> bool:
    """Return whether 0 is white in an image whose pixels Pillow gives as they are stored.

    So it is in a TIFF of 16 bits with the PhotometricInterpretation WhiteIsZero (TIFF 6.0, page 37). Pillow
    inverts those of up to 8 bits.
    """
    if image.info.get(_IS_NEGATIVE):
        return True
    return isinstance(image, TiffImageFile) and image.mode == "I;16" and image.tag_v2.get(_PHOTOMETRIC) == 0


def open_mask(data: Any) -> Image.Image:
    """Open an encoded mask with Pillow; see :func:`open_image`."""
    known = [name for name in _MASK_FORMATS if name in _pillow_formats()]
    try:
        image = Image.open(io.BytesIO(data), formats=known)
    except UnidentifiedImageError as error:
        raise ValueError(f"it is damaged, or in none of the formats of masks: {', '.join(known)}") from error
    check_rows(data, image)
    return image


@cache
def _pillow_formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in PILLOW_CODECS if name in Image.OPEN)


def check_rows(data: Any, image: Image.Image) -> None:
    """Refuse an opened PNG whose compressed rows end early. Pillow fills the others with zeros."""
    view = memoryview(data)
    if bytes(view[:8]) != _PNG:
        return
    bits = view[24] * _PNG_SAMPLES.get(view[25], 1)
    passes = _PNG_PASSES if view[28] else ((0, 0, 1, 1),)
    shapes = [
        ((image.height - y + dy - 1) // dy, (image.width - x + dx - 1) // dx) for x, y, dx, dy in passes
    ]
    missing = sum(rows * (1 + (columns * bits + 7) // 8) for rows, columns in shapes if columns)
    inflater, at, name = zlib.decompressobj(), 8, b""
    while missing > 0 and name != b"IEND" and at < len(view):
        length, name = int.from_bytes(view[at : at + 4], "big"), bytes(view[at + 4 : at + 8])
        rest: Any = view[at + 8 : at + 8 + length] if name == b"IDAT" else b""
        while rest and missing > 0:
            try:
                missing -= len(inflater.decompress(rest, min(missing, 1 << 20)))
            except zlib.error:
                return  # Pillow refuses it
            rest = inflater.unconsumed_tail
        at += length + 12
    if missing > 0 and inflater.eof:  # Pillow refuses a stream without its end
        raise DecodeError("the data ends before the image does")


def exif_orientation(data: Any, image: Image.Image) -> int:
    """Return the EXIF orientation of an encoded image, which is also opened; 1 to 8, 1 if it has none."""
    # It is in the EXIF segment of a JPEG, the eXIf chunk of a PNG, the tags of a TIFF, or the EXIF of a WebP
    # or an AVIF. Pillow also reads XMP and ImageMagick's "Raw profile type exif". Other decoders, such as
    # DALI's, do not, so these do not count here.
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


def read_header(data: Any) -> ImageHeader:
    """Return the header of an encoded image, any C-contiguous buffer; no pixel is decoded."""
    try:
        codec, width, height, orientation, _ = _native.probe(data)
    except ValueError as error:
        raise DecodeError(str(error)) from error
    if codec == Codec.OTHER and bytes(memoryview(data)[: len(NPY_SIGNATURE)]) == NPY_SIGNATURE:
        (height, width, _), codec = read_npy_header(data).shape, Codec.NPY
    elif codec == Codec.OTHER:
        codec, width, height, orientation = _ask_pillow(data)
    if width * height > MAX_PIXELS:
        raise ImageTooLargeError(f"the image has {width} x {height} pixels, more than {MAX_PIXELS}")
    if width < 1 or height < 1:
        raise DecodeError(f"the image has {width} x {height} pixels")
    # Orientations 5 to 8 exchange height and width (Exif 2.32, tag 274).
    size = (width, height) if orientation >= 5 else (height, width)
    return ImageHeader(Codec(codec), *size, orientation)


def _ask_pillow(data: Any) -> tuple[int, int, int, int]:
    try:
        with open_image(data) as image:
            orientation = exif_orientation(data, image)
            width, height = image.size
            if isinstance(image, TiffImageFile):
                # Pillow turns only this format by itself, and newer versions give the turned size.
                width, height = image.tag_v2[_WIDTH], image.tag_v2[_HEIGHT]
            return PILLOW_CODECS[str(image.format)], width, height, orientation
    except UnidentifiedImageError as error:
        raise DecodeError("not an image of a known format") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ImageTooLargeError(str(error)) from error
    except (DecodeError, MemoryError):
        raise
    except Exception as error:
        raise DecodeError(f"the header is damaged: {error}") from error


def read_partial_header(read: Callable[[int, int], bytes], length: int) -> tuple[ImageHeader, bytes | None]:
    """Return the header of an image in a large file, and the bytes of the image if all had to be read."""
    # ``read`` returns bytes of the image, given an offset and a length. A JPEG and most WebP files say
    # everything before their pixels. A PNG may have its orientation after them. Other formats may have their
    # size anywhere, so their images are read whole.
    for most in _STARTS:
        if most >= length:
            break
        start = read(0, most)
        try:
            if (header := _from_start(start, read, length)) is not None:
                return header, None
        except DecodeError:
            continue  # the header may be longer than these bytes
        if not start.startswith(_JPEG):
            break
    whole = read(0, length)
    return read_header(whole), whole


def _from_start(start: bytes, read: Callable[[int, int], bytes], length: int) -> ImageHeader | None:
    """Return the header in the first bytes of an image; None if they are not enough."""
    if start.startswith(_JPEG):
        return read_header(start)
    if start.startswith(_PNG):
        exif_may_follow = b"eXIf" in read(length - _TAIL, _TAIL)
        return None if exif_may_follow else read_header(start)
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return _webp_header(start)
    return None


def _webp_header(start: bytes) -> ImageHeader | None:
    """Return the header of a WebP without EXIF and animation (RFC 9649, sections 2.5 to 2.7)."""
    chunk = start[12:16]
    if chunk == b"VP8X" and not start[20] & (_HAS_EXIF | _IS_ANIMATED):
        width, height = (1 + int.from_bytes(start[at : at + 3], "little") for at in (24, 27))
    elif chunk == b"VP8 " and start[23:26] == b"\x9d\x01\x2a":
        width, height = (int.from_bytes(start[at : at + 2], "little") & 0x3FFF for at in (26, 28))
    elif chunk == b"VP8L" and start[20] == 0x2F:
        bits = int.from_bytes(start[21:25], "little")
        width, height = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    else:
        return None
    return ImageHeader(Codec.WEBP, height, width, 1) if width and height else None


def grey_bits(data: bytes, codec: Codec) -> int:
    """Return the bits of a pixel of a grey PNG, of colour type 0 (PNG 1.2, 4.1.1); 0 for other images."""
    return data[24] if codec == Codec.PNG and not data[25] else 0


def _jpeg_damage(data: bytes) -> str:
    """Check that a JPEG has an end marker after its pixels; cameras append other data after it."""
    is_whole = data.endswith(_END_OF_JPEG) or data.find(_END_OF_JPEG, _start_of_scan(data)) >= 0
    return "" if is_whole else _CUT_OFF


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


def _png_damage(data: bytes) -> str:
    """Check that no chunk of a PNG ends early, and that they match their checksums."""
    # After the pixels, checksums of optional chunks such as comments do not count, as in libpng and Pillow.
    at, chunk, has_pixels = 8, b"", False
    while chunk != b"IEND":
        length, chunk = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        end = at + 8 + length
        if end + 4 > len(data):
            return _CUT_OFF
        has_pixels = has_pixels or chunk == b"IDAT"
        counts = not has_pixels or chunk[:1].isupper() or chunk == b"eXIf"
        if counts and zlib.crc32(memoryview(data)[at + 4 : end]) != int.from_bytes(
            data[end : end + 4], "big"
        ):
            return f"the checksum of its chunk {chunk.decode('ascii', 'replace')} does not match"
        at = end + 4
    return ""


def _webp_damage(data: bytes) -> str:
    return "" if int.from_bytes(data[4:8], "little") + 8 <= len(data) else _CUT_OFF


DAMAGE_CHECKS: dict[Codec, Callable[[bytes], str]] = {
    Codec.JPEG: _jpeg_damage,
    Codec.PNG: _png_damage,
    Codec.WEBP: _webp_damage,
    Codec.NPY: npy_damage,
}
"""Functions that say why a file is not whole, or return an empty text. Other codecs must be decoded."""
