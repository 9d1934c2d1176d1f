"""Small pictures, encoded and decoded."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image


def encode(
    image: Image.Image | npt.NDArray[Any], form: str = "JPEG", orientation: int = 0, **saved: Any
) -> bytes:
    """Returns an image as a file in one of Pillow's formats; with an EXIF orientation, unless it is 0."""
    stream = io.BytesIO()
    image = image if isinstance(image, Image.Image) else Image.fromarray(image)
    image.save(stream, form, **({"exif": exif(orientation)} if orientation else {}), **saved)
    return stream.getvalue()


def exif(orientation: int) -> Image.Exif:
    """Returns EXIF data with an orientation, 1 to 8."""
    tags = Image.Exif()
    tags[0x0112] = orientation
    return tags


def npy(array: npt.NDArray[Any], **options: Any) -> bytes:
    """Returns an array as a file of NumPy."""
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Returns pixels as a PNG."""
    return encode(pixels, "PNG")


def decode(data: bytes) -> npt.NDArray[np.uint8]:
    """Returns the pixels of a file as Pillow decodes them."""
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image)


def smooth(height: int, width: int) -> Image.Image:
    """Returns a picture without edges."""
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    return Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC)


def noise(seed: int, height: int = 6, width: int = 8) -> npt.NDArray[np.uint8]:
    """Returns random pixels, (height, width, 3)."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
