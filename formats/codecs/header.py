"""Headers of encoded images: codec, size and orientation, read without decoding a pixel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from PIL import Image, UnidentifiedImageError
from PIL.TiffImagePlugin import TiffImageFile

from stoker import _native
from stoker.errors import DecodeError, ImageTooLargeError

from .codec import Codec
from .npy import NPY_SIGNATURE, read_npy_header
from .orientation import exif_orientation
from .registry import PILLOW_CODECS, open_image

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
