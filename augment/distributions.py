"""Draws that several transforms share, from a fixed number of uniform numbers each."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .description import between

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]


_ATTEMPTS = 6
DRAWS = 3 * _ATTEMPTS + 1
"""Number of uniform numbers for each share."""


def dirichlet(alpha: float, u: Float) -> Float:
    """Shares, (N, K), of (N, K * DRAWS) numbers uniform in [0, 1); each row sums to 1.

    They are Gamma(alpha) variates over their sum. Each variate follows the method of Marsaglia and Tsang
    ("A simple method for generating gamma variables", ACM TOMS 2000), which accepts 19 attempts in 20. The
    first accepted one of six attempts counts, or the first attempt if none is accepted (one in 10**8).
    """
    u = u.reshape(len(u), u.shape[1] // DRAWS, DRAWS)
    logarithm = _log_gamma(alpha, u)
    shares = np.exp(logarithm - logarithm.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _log_gamma(alpha: float, u: Float) -> Float:
    """Logarithms of Gamma(alpha) variates, (N, K); the variates of a small alpha would underflow."""
    boost = alpha < 1
    d = alpha + boost - 1 / 3
    first, second, third = (1 - u[..., k : 3 * _ATTEMPTS : 3] for k in range(3))  # in (0, 1]
    normal = np.sqrt(-2 * np.log(first)) * np.cos(2 * np.pi * second)
    v = np.maximum(1 + normal / math.sqrt(9 * d), 1e-9) ** 3
    log_v = np.log(v)
    accepted = (np.log(third) < normal**2 / 2 + d * (1 - v + log_v)) & (v > 1e-20)
    chosen = accepted.argmax(axis=-1)[..., None]
    result = math.log(d) + np.take_along_axis(log_v, chosen, axis=-1)[..., 0]
    return result + np.log(1 - u[..., -1]) / alpha if boost else result


def symmetric_beta(alpha: float, u: Float) -> Float:
    """Beta(alpha, alpha) variates, (N,), from each sample's first two uniform numbers, without rejection.

    They are accurate to 1e-16: smaller shares are zero. Source: Devroye, "Random variate generation in one
    line of code", Winter Simulation Conference 1996, the symmetric Beta.
    """
    cosine = np.cos(2 * np.pi * u[:, 1])
    with np.errstate(over="ignore", divide="ignore"):  # infinite for a small alpha: the share is 0 or 1
        odds = ((1 - u[:, 0]) ** (-1 / alpha) - 1) * cosine**2
        return np.asarray(0.5 + 0.5 * np.sign(cosine) / np.sqrt(1 + 1 / odds))


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
