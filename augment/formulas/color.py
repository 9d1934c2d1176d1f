"""Colour operations as linear maps of RGB.

Each function takes the draws of N samples, (N,) arrays, and returns (N, 3, 3) float64 matrices
that act on RGB columns; brightness and saturation take any shape in place of (N,). Grey is torchvision's:
0.2989 R + 0.587 G + 0.114 B (ITU-R BT.601, rounded).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]

GREY = np.array([0.2989, 0.587, 0.114])
"""Weights of R, G and B in grey."""

_IDENTITY = np.eye(3)
_CIRCULANT = np.array([[0, 1, 2], [2, 0, 1], [1, 2, 0]])


def brightness(factor: Float) -> Float:
    """``factor * rgb``."""
    return np.asarray(factor[..., None, None] * _IDENTITY)


def saturation(factor: Float) -> Float:
    """``factor * rgb + (1 - factor) * grey``."""
    return np.asarray(brightness(factor) + (1 - factor)[..., None, None] * GREY)


def grayscale(where: npt.NDArray[np.bool_]) -> Float:
    """Grey in all three channels where ``where`` is true."""
    return saturation(np.where(where, 0.0, 1.0))


def hue(turn: Float) -> Float:
    """Rotation of RGB space about the grey axis by ``turn`` of a full turn; red to green is 1/3.

    It keeps the mean of the channels and the distance from grey. torchvision shifts the hue of HSV,
    which is not linear: it keeps the largest and the smallest channel. The two are equal at thirds of
    a turn and for grey; in between a saturated colour differs by up to a third of the range (at a
    sixth of a turn; a seventh at 0.05).
    """
    angle = 2 * np.pi * turn
    even, odd = (1 - np.cos(angle)) / 3, np.sin(angle) / np.sqrt(3)
    circulant = np.stack((1 - 2 * even, even - odd, even + odd), axis=-1)
    return circulant[:, _CIRCULANT]


def permutation(order: npt.NDArray[np.int64]) -> Float:
    """Channel ``i`` becomes what channel ``order[:, i]`` was; (N, 3) integers."""
    return np.eye(3)[order]
