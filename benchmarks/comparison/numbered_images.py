"""Images whose numbers can be read from any crop, so that the samples of an epoch can be counted.

The mean colour of an image is its number in base 11; crops, flips and resizes keep it. Noise in the
luminance, with a mean of zero, makes the file about as large as a photograph of ImageNet.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from stoker.benchmarks.peers.base import MEAN, STD

_BASE, _LEAST, _STEP = 11, 28, 20
"""Number of values of a digit, the smallest value of a channel, and the distance between two."""
_NOISE, _QUALITY = 8.0, 96


def write_numbered_images(folder: Path, count: int, height: int = 375, width: int = 500) -> None:
    """Write ``count`` JPEG files of one class, at most 1,331, named by their numbers."""
    from PIL import Image

    (folder / "0").mkdir(parents=True)
    for number in range(count):
        colour = _LEAST + _STEP * np.array([number // _BASE**digit % _BASE for digit in range(3)])
        noise = np.random.default_rng(number).normal(0, _NOISE, (height, width, 1))
        pixels = (colour + noise).round().clip(0, 255).astype(np.uint8)
        path = folder / "0" / f"{number:05d}.jpg"
        Image.fromarray(pixels).save(path, quality=_QUALITY, subsampling="4:4:4")


def sample_numbers(batch: npt.NDArray[np.float32]) -> list[int]:
    """Return the number of each image of a batch, (N, 3, H, W) float32, normalised."""
    values = 255 * (np.asarray(batch).mean((2, 3)) * np.array(STD) + np.array(MEAN))
    digits = np.rint((values - _LEAST) / _STEP).astype(int).clip(0, _BASE - 1)
    numbers: list[int] = (digits @ _BASE ** np.arange(3)).tolist()
    return numbers
