"""A decoder by Pillow alone, for comparison with the decoders of Stoker."""

import io

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageChops, ImageOps

__all__ = ["decode_with_pillow", "without_adobe_marker"]


def without_adobe_marker(jpeg: bytes) -> bytes:
    """Return a JPEG without Adobe's segment, which says how its colours are stored."""
    segment = jpeg.index(b"\xff\xee\x00\x0eAdobe")
    return jpeg[:segment] + jpeg[segment + 16 :]


def decode_with_pillow(data: bytes) -> npt.NDArray[np.uint8]:
    """Return the (H, W, 3) uint8 RGB pixels of an image, its EXIF orientation applied.

    16-bit grey keeps its higher 8 bits; Pillow's own conversion would make nearly all of it white. A JPEG
    without Adobe's segment stores amounts of ink; Pillow takes them for inverted amounts.
    """
    with Image.open(io.BytesIO(data)) as image:
        turned = ImageOps.exif_transpose(image)
        if turned.mode.startswith("I"):
            turned = Image.fromarray((np.asarray(turned).astype(np.uint16) >> 8).astype(np.uint8))
        if turned.mode == "CMYK" and image.format == "JPEG" and "adobe" not in image.info:
            turned = ImageChops.invert(turned)
        return np.array(turned.convert("RGB"))
