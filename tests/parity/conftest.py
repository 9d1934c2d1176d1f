"""What the comparisons of engines share."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from stoker.formats import dataset as datasets

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stoker.formats.dataset import Dataset

SQUARES, SIDE = 12, 64


def square(i: int) -> np.ndarray[Any, Any]:
    """An image that is smooth but for a rectangle: (64, 64, 3) uint8."""
    rng = np.random.default_rng(i)
    small = Image.fromarray(rng.integers(0, 256, (9, 9, 3), np.uint8))
    pixels = np.array(small.resize((SIDE, SIDE), Image.Resampling.BICUBIC))
    pixels[8:20, 30:50] = rng.integers(0, 256, 3)
    return 20 + (pixels * 0.8).astype(np.uint8)  # contrast can be stretched


@pytest.fixture(scope="session")
def square_pixels() -> list[np.ndarray[Any, Any]]:
    """Twelve images of 64 x 64 pixels."""
    return [square(i) for i in range(SQUARES)]


@pytest.fixture(scope="session")
def squares(pack_images: Callable[..., Path], square_pixels: list[np.ndarray[Any, Any]]) -> Dataset:
    """The same as a dataset of PNG, whose pixels every engine knows exactly."""
    payloads = []
    for pixels in square_pixels:
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, "PNG")
        payloads.append(stream.getvalue())
    return datasets.open(pack_images(payloads))
