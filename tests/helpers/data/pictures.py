"""Small pictures, encoded and decoded."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image


def encode(image: Image.Image, form: str = "JPEG", **saved: Any) -> bytes:
    """Returns an image as a file in one of Pillow's formats."""
    stream = io.BytesIO()
    image.save(stream, form, **saved)
    return stream.getvalue()


def png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Returns pixels as a PNG."""
    return encode(Image.fromarray(pixels), "PNG")


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
