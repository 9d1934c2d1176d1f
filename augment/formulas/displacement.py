"""Displacement fields of ElasticTransform, as a function of a key.

The field of an image H high and W wide is made as torchvision makes it (``torchvision.transforms.v2``,
``ElasticTransform``, 0.29): uniform noise from -1 to 1 for each pixel and axis, smoothed by a Gaussian, times
``alpha`` over the size in torchvision's unit, which is half the image. In pixels that is ``alpha / 2``.

The pixel in row r and column c takes number ``r * W + c`` of the SplitMix64 sequence from the key
(:func:`stoker.random.sequence`). With k for its lowest 16 bits, the noise along x is
``(2 * k + 1) / 65536 - 1``; the next 16 bits are those of y. The Gaussian ends 4 sigma from its centre, its
weights are rounded to multiples of 2**-16 so that they sum to 1, and the field is continued by reflection.
So all sums are exact in float64, and all engines make the same field, bit for bit.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from stoker.random import sequence
from stoker.types import Size

Float = npt.NDArray[np.float64]

_ONE = 1 << 16
_UNIT = 2.0**-48
"""Noise and both weights are multiples of 2**-16."""

_BLOCK = 16
"""Rows that one product of matrices makes."""

_MOST_PRODUCTS = 1 << 18
"""Multiplications of a matrix product. For more, OpenBLAS starts threads, which cost more than they gain."""


@lru_cache(maxsize=8)  # for the masks, boxes and keypoints of an image
def displacement(key: int, size: Size, alpha: tuple[float, float], sigma: tuple[float, float]) -> Float:
    """The field of a key."""
    # -> (2, H, W) float64
    height, width = size
    bits = sequence(key, np.arange(height * width).reshape(size))
    across, down = map(gaussian_weights, sigma)
    factors = alpha[1] / 2, alpha[0] / 2
    field = np.empty((2, height, width))
    for axis, shift in enumerate((16, 0)):
        noise = 2.0 * (bits >> np.uint64(shift) & np.uint64(_ONE - 1)).astype(np.float64) + (1 - _ONE)
        field[axis] = _smoothed(_smoothed(noise, down).T, across).T * (factors[axis] * _UNIT)
    field.flags.writeable = False
    return field


def gaussian_weights(sigma: float) -> Float:
    """The weights, an odd number of them, as multiples of 2**-16: their sum is 65536."""
    half = (int(8 * sigma + 1) | 1) // 2
    if not half:
        return np.full(1, float(_ONE))
    weights = np.exp(-0.5 * (np.arange(-half, half + 1) / sigma) ** 2)
    rounded = np.rint(weights / weights.sum() * _ONE)
    rounded[half] += _ONE - rounded.sum()
    return np.asarray(rounded)


def _smoothed(noise: Float, weights: Float) -> Float:
    """Noise, (H, W), convolved along its first axis, as products of matrices with the weights in a band."""
    (size, width), half = noise.shape, len(weights) // 2
    count, most = -(-size // _BLOCK), _BLOCK + 2 * half
    at = np.abs(np.arange(-half, count * _BLOCK + half)) % max(2 * size - 2, 1)
    lines = np.take(noise, np.minimum(at, 2 * size - 2 - at), axis=0)
    band = np.zeros((_BLOCK, most))
    for row in range(_BLOCK):
        band[row, row : row + len(weights)] = weights
    blocks = np.lib.stride_tricks.sliding_window_view(lines, most, axis=0)[::_BLOCK].swapaxes(1, 2)
    total = np.empty((count, _BLOCK, width))
    share = max(1, _MOST_PRODUCTS // band.size)
    for first in range(0, width, share):
        part = slice(first, first + share)
        np.matmul(band, blocks[..., part], out=total[..., part])
    return total.reshape(-1, width)[:size]
