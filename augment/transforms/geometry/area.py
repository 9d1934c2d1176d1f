"""Boxes of random area and aspect ratio: the distribution of RandomResizedCrop and RandomErasing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ...description import between

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]

ATTEMPTS = 10
"""Number of attempts, as in torchvision."""


def first_fit(
    image: Int, bounds: tuple[Int | int, Int | int], scale: Sequence[float], ratio: Sequence[float], u: Float
) -> tuple[Int, npt.NDArray[np.bool_]]:
    """Sizes of the first attempts that lie within bounds."""
    # image (2, N), u (N, 2 * ATTEMPTS)
    area = (image[0] * image[1])[:, None] * between(scale, u[:, :ATTEMPTS])
    aspect = np.exp(between(tuple(map(math.log, ratio)), u[:, ATTEMPTS:]))
    size = np.rint(np.sqrt((area / aspect, area * aspect)))
    smallest, largest = (np.atleast_1d(bound)[..., None] for bound in bounds)
    fits = np.all((size >= smallest) & (size <= largest), axis=0)
    rows, first = np.arange(fits.shape[0]), np.argmax(fits, axis=1)
    return size[:, rows, first].astype(np.int64), fits[rows, first]
