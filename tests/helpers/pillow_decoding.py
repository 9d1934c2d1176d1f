"""A decoder that depends on Pillow alone, which tests compare the decoders of Stoker with."""

import io

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

__all__ = ["decode_with_pillow"]


def decode_with_pillow(data: bytes) -> npt.NDArray[np.uint8]:
    """Return the (H, W, 3) uint8 RGB pixels of an image, its EXIF orientation applied.

    The higher 8 bits of 16-bit grey are taken; Pillow's own conversion would make nearly all of it white.
    """
    with Image.open(io.BytesIO(data)) as image:
        turned = ImageOps.exif_transpose(image)
        if turned.mode.startswith("I"):
            turned = Image.fromarray((np.asarray(turned).astype(np.uint16) >> 8).astype(np.uint8))
        return np.array(turned.convert("RGB"))
