"""EXIF orientation, with one rule for headers and pixels; other statements in a file do not count."""

from __future__ import annotations

from typing import Any

from PIL import Image, ImageOps
from PIL.TiffImagePlugin import TiffImageFile

from stoker import _native

from .codec import Codec

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
