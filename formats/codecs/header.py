"""Headers of encoded images: codec, size and orientation, read without decoding a pixel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from PIL import Image, UnidentifiedImageError
from PIL.TiffImagePlugin import TiffImageFile

from stoker import _native
from stoker.errors import DecodeError, ImageTooLargeError, SourceError

from .codec import Codec, is_pixel_shape
from .npy import NPY_SIGNATURE, read_npy_header
from .registry import PILLOW_CODECS, exif_orientation, open_image

MAX_PIXELS = 178_956_970
"""Most pixels of an image that is decoded: Pillow's limit, 512 MiB of RGB."""

_WIDTH, _HEIGHT = 0x0100, 0x0101  # tags of TIFF


@dataclass(frozen=True)
class ImageHeader:
    """The header of an encoded image."""

    codec: Codec  # Its codec
    height: int  # Pixels, after the EXIF orientation has been applied
    width: int  # Pixels, after the EXIF orientation has been applied
    orientation: int  # EXIF orientation, 1 to 8; 1 if it has none


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
    except DecodeError:
        raise
    except Exception as error:
        raise DecodeError(f"the header is damaged: {error}") from error


Read = Callable[[int, int], bytes]

_STARTS = (1 << 10, 8 << 10, 64 << 10, 1 << 20)  # a camera's EXIF has up to 64 KiB
_TAIL = 2 << 10  # an eXIf chunk after the pixels is shorter, unless it holds a thumbnail
_JPEG = b"\xff\xd8\xff"
_PNG = b"\x89PNG\r\n\x1a\n"
_HAS_EXIF, _IS_ANIMATED = 0x08, 0x02  # flags of VP8X


def read_partial_header(read: Read, length: int) -> tuple[ImageHeader, bytes | None]:
    """Return the header of an encoded image, and its bytes if all of them had to be read.

    ``read`` returns bytes of the image, given an offset and a length.
    """
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


def _from_start(start: bytes, read: Read, length: int) -> ImageHeader | None:
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


_CHANNELS = (3, 1)


def raw_header(length: int, shape: tuple[int, ...], *, any_channels: bool = False) -> ImageHeader:
    """Return the header of raw pixels, uint8, rows from the top.

    ``shape`` has height and width, and perhaps channels. With ``any_channels`` it has none, and the length
    decides between one and three.
    """
    fitting = [channels for channels in _CHANNELS if prod(shape) * channels == length]
    if any_channels and fitting:
        shape = (*shape, fitting[0])
    words = " x ".join(map(str, shape))
    if not is_pixel_shape(shape) or prod(shape) != length:
        kinds = "neither grey nor RGB of" if any_channels else "not"
        raise SourceError(
            f"{length} bytes of raw pixels are {kinds} {words} pixels of 8 bits",
            hint="name another shape (--shape), or the features with height and width (--height-feature, "
            "--width-feature)",
        )
    height, width, channels = (*shape, 1)[:3]
    if height * width > MAX_PIXELS:
        raise SourceError(
            f"the image has {words} pixels, more than {MAX_PIXELS}",
            hint="check the size that is stated for it",
        )
    return ImageHeader(Codec.RAW if channels == 3 else Codec.PLANES, height, width, 1)
