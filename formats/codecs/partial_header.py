"""Headers of images in a large file, such as an archive at a URL, read from a few bytes of each image.

A JPEG and most WebP files say everything before their pixels. A PNG may have its orientation after them.
Other formats may have their size anywhere, so their images are read whole.
"""

from __future__ import annotations

from collections.abc import Callable

from stoker.errors import DecodeError

from .codec import Codec
from .header import ImageHeader, read_header

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
