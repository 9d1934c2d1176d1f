"""Random crops and normalisation in Python, for peers that have neither."""

from __future__ import annotations

import math
import random

import numpy as np
import numpy.typing as npt

from stoker.benchmarks.peers.base import MEAN, RATIO, SCALE, STD

_ATTEMPTS = 10
_OFFSET = 255 * np.array(MEAN, np.float32)[:, None, None]
_SCALE = 1 / (255 * np.array(STD, np.float32)[:, None, None])


def random_resized_crop(
    rng: random.Random, height: int, width: int, scale: tuple[float, float] = SCALE
) -> tuple[int, int, int, int]:
    """Draw a box (top, left, height, width) inside an image, pixels.

    The distribution is that of ``RandomResizedCrop.make_params`` in torchvision.transforms.v2: a uniform
    share of the area and a log-uniform aspect ratio; after ten attempts, the largest centred box of an
    allowed ratio.
    """
    for _ in range(_ATTEMPTS):
        area = height * width * rng.uniform(*scale)
        ratio = math.exp(rng.uniform(math.log(RATIO[0]), math.log(RATIO[1])))
        crop_width = round(math.sqrt(area * ratio))
        crop_height = round(math.sqrt(area / ratio))
        if 0 < crop_width <= width and 0 < crop_height <= height:
            top = rng.randint(0, height - crop_height)
            return top, rng.randint(0, width - crop_width), crop_height, crop_width
    ratio = min(max(width / height, RATIO[0]), RATIO[1])
    crop_width = min(width, max(1, round(height * ratio)))
    crop_height = min(height, max(1, round(width / ratio)))
    return (height - crop_height) // 2, (width - crop_width) // 2, crop_height, crop_width


def normalised(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Return (3, H, W) float32 of (H, W, 3) uint8, normalised with the mean and deviation of ``base``."""
    planes = np.ascontiguousarray(pixels.transpose(2, 0, 1), np.float32)
    planes -= _OFFSET
    planes *= _SCALE
    return planes
