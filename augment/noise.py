"""Noise and displacement fields, each a function of a key, so that all engines make the same.

The pixel in row r and column c of an image W wide is pixel ``p = r * W + c``. Its 64 bits are number p of the
SplitMix64 sequence from the key (:func:`stoker.random.sequence`).

Normal noise: red takes the lowest 16 bits, green the next 16, then blue, then a fourth channel. The next four
channels take the bits of number ``p + 2**40``, and so on. The number k of 16 bits gives the quantile
``(k + 0.5) / 65536`` of the standard normal distribution, in float32.

The field of ElasticTransform is made as torchvision makes it (``torchvision.transforms.v2``, 0.29): uniform
noise from -1 to 1 for each pixel and axis, smoothed by a Gaussian, times ``alpha / 2`` in pixels. With k for
the lowest 16 bits of the pixel, the noise along x is ``(2 * k + 1) / 65536 - 1``; the next 16 bits are for y.
The Gaussian ends 4 sigma from its centre, its weights are rounded to multiples of 2**-16 so that they sum to
1, and the field is continued by reflection. So all sums are exact in float64.
"""

from __future__ import annotations

from functools import lru_cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from stoker.random import sequence
from stoker.types import Size

Float = npt.NDArray[np.float64]

_ONE = 1 << 16
_NEXT_NUMBER = 1 << 40  # distance between the numbers of a pixel for four channels and for the next four
_BLOCK = 16  # rows that one product of matrices makes
_MOST_PRODUCTS = 1 << 18  # multiplications of a matrix product; for more, OpenBLAS starts costly threads


@lru_cache(maxsize=1)
def quantiles() -> npt.NDArray[np.float32]:
    """Quantiles of the standard normal distribution: (65536,) float32, ascending."""
    half = map(NormalDist().inv_cdf, ((np.arange(_ONE // 2) + 0.5) / _ONE).tolist())
    lower = np.fromiter(half, np.float32, _ONE // 2)
    table = np.concatenate((lower, -lower[::-1]))
    table.flags.writeable = False
    return table


def normal_noise(
    key: int, box: tuple[int, int, int, int], width: int, channels: int = 3
) -> npt.NDArray[np.float32]:
    """Noise of a key within a box of an image: (height, width of the box, channels) float32."""
    top, left, rows, columns = box
    pixels = (top + np.arange(rows))[:, None] * width + left + np.arange(columns)
    number, part = np.divmod(np.arange(channels), 4)
    numbers = sequence(key, pixels[..., None] + np.arange(number[-1] + 1) * _NEXT_NUMBER)
    parts = numbers[..., number] >> (16 * part).astype(np.uint64)
    return np.asarray(quantiles()[(parts & np.uint64(_ONE - 1)).astype(np.intp)])


@lru_cache(maxsize=8)  # for the masks, boxes and keypoints of an image
def displacement(key: int, size: Size, alpha: tuple[float, float], sigma: tuple[float, float]) -> Float:
    """The field of a key, (2, H, W)."""
    height, width = size
    bits = sequence(key, np.arange(height * width).reshape(size))
    across, down = map(gaussian_weights, sigma)
    factors = alpha[1] / 2, alpha[0] / 2
    field = np.empty((2, height, width))
    for axis, shift in enumerate((16, 0)):
        noise = 2.0 * (bits >> np.uint64(shift) & np.uint64(_ONE - 1)).astype(np.float64) + (1 - _ONE)
        field[axis] = _smoothed(_smoothed(noise, down).T, across).T * (
            factors[axis] / 2.0**48
        )  # noise and both weights are multiples of 2**-16
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
