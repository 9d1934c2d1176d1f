"""WebP files of every kind that Pillow writes, of smooth noise, and of small images on a larger canvas."""

from __future__ import annotations

from typing import Any

import numpy as np
from helpers.data.pictures import encode
from PIL import Image

__all__ = ["KINDS", "webp"]

KINDS: dict[str, dict[str, Any]] = {
    "lossy": {"quality": 80, "method": 0},
    "coarse": {"quality": 5, "method": 0},
    "lossless": {"lossless": True, "quality": 0, "method": 0},
    "lossy with alpha": {"quality": 80, "method": 0, "channels": 4},
    "lossless with alpha": {"lossless": True, "quality": 0, "method": 0, "channels": 4},
    "animated": {"quality": 80, "method": 0, "frames": 3},
    "animated lossless with alpha": {"lossless": True, "quality": 0, "method": 0, "channels": 4, "frames": 2},
    "small on its canvas": {
        "lossless": True,
        "quality": 0,
        "method": 0,
        "channels": 4,
        "frames": 2,
        "free": 6,
    },
}
"""Options of :func:`webp` by a name."""


def webp(
    seed: int, height: int, width: int, *, channels: int = 3, frames: int = 1, free: int = 0, **options: Any
) -> bytes:
    """A WebP of smooth noise.

    Args:
        seed: Decides the pixels.
        height: Pixels.
        width: Likewise.
        channels: 3 RGB, 4 with alpha.
        frames: Images of an animation; 1 is none.
        free: Transparent pixels at the left and the top, which an animation does not store.
        options: Of Pillow's encoder, and ``exif``.
    """
    random = np.random.default_rng(seed)
    grid = np.indices((height, width)).sum(axis=0)[..., np.newaxis]
    images = []
    for _ in range(frames):
        noise = random.integers(0, 60, (height, width, channels))
        pixels = ((grid * 3 + noise + 40 * np.arange(channels)) % 256).astype(np.uint8)
        if channels == 4:
            pixels[..., 3] |= 1  # an encoder may change colours where nothing is seen
        pixels[:free] = pixels[:, :free] = 0
        images.append(Image.fromarray(pixels))
    more = {"save_all": True, "append_images": images[1:]} if frames > 1 else {}
    return encode(images[0], "WEBP", **more, **options)
