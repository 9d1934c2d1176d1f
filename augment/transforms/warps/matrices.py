"""Matrices of warps, from the output back to the image: rotations, affine maps and homographies."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]


def inverse_rotation(center: Float, degrees: Float) -> Float:
    """(N, 3, 3) matrices that undo a rotation about a centre; see :func:`inverse_affine`."""
    angle = np.radians(degrees)
    inverse = np.zeros((len(angle), 3, 3))
    inverse[:, 0, 0] = inverse[:, 1, 1] = np.cos(angle)
    inverse[:, 0, 1] = np.sin(angle)
    inverse[:, 1, 0] = -inverse[:, 0, 1]
    return _about(inverse, center, center)


def expanded(size: Int, degrees: Float) -> Int:
    """Sizes, (2, N), that show the whole of images of ``size``, (2, N), rotated by ``degrees``, (N,).

    As in torchvision, the ends are truncated to four decimals and then extended to whole pixels.
    """
    angle, half = np.radians(degrees), size / 2
    reach = np.abs(np.cos(angle)) * half + np.abs(np.sin(angle)) * half[::-1]
    low = half - reach + 1e-6  # a whole number but for its last bits counts as one
    low, high = (np.trunc(end * 1e4) / 1e4 for end in (low, half + reach))
    return np.asarray(np.ceil(high) - np.floor(low), np.int64)


def inverse_affine(center: Float, degrees: Float, shift: Float, scale: Float, shear: Float) -> Float:
    """(N, 3, 3) matrices that undo scale, shear and rotation about a centre, and then a shift."""
    # center (2, N), degrees (N,), shift (2, N), scale (N,), shear (2, N)
    angle, (x, y) = np.radians(degrees), np.radians(shear)
    # Rotation and shear have determinant 1, so the inverse swaps and negates their entries.
    inverse = np.zeros((len(angle), 3, 3))
    inverse[:, 0, 0] = np.cos(angle) - np.sin(angle - y) * np.tan(x) / np.cos(y)
    inverse[:, 0, 1] = np.sin(angle) + np.cos(angle - y) * np.tan(x) / np.cos(y)
    inverse[:, 1, 0] = -np.sin(angle - y) / np.cos(y)
    inverse[:, 1, 1] = np.cos(angle - y) / np.cos(y)
    inverse /= scale[:, None, None]
    return _about(inverse, center, center + shift)


def homography(start: Int, end: Int) -> Float:
    """(N, 3, 3) matrices that map the corners of rectangles, (N, 4, 2), to those of convex quadrilaterals.

    One corner of each rectangle is the origin. The matrices' third component is positive within them.
    """
    x, y = start[..., 0], start[..., 1]
    one, zero = np.ones_like(x), np.zeros_like(x)
    rows = [
        np.stack((x, y, one, zero, zero, zero, -end[..., 0] * x, -end[..., 0] * y), axis=-1),
        np.stack((zero, zero, zero, x, y, one, -end[..., 1] * x, -end[..., 1] * y), axis=-1),
    ]
    system = np.concatenate(rows, axis=1).astype(np.float64)
    target = np.concatenate((end[..., 0], end[..., 1]), axis=1).astype(np.float64)
    solved = np.linalg.solve(system, target[..., None])[..., 0]
    return np.concatenate((solved, np.ones((len(solved), 1))), axis=1).reshape(-1, 3, 3)


def is_convex(quads: Int) -> npt.NDArray[np.bool_]:
    """Which quadrilaterals, (N, 4, 2) of (x, y), turn to the right at every corner."""
    edges = np.roll(quads, -1, axis=1) - quads
    following = np.roll(edges, -1, axis=1)
    turns = edges[..., 0] * following[..., 1] - edges[..., 1] * following[..., 0]
    return np.asarray(np.all(turns > 0, axis=1))


def _about(linear: Float, center: Float, moved: Float) -> Float:
    """Add translations to matrices, (N, 3, 3), that map ``moved`` to ``center``, both (2, N) or (2, 1)."""
    linear[:, :2, 2] = (center - (linear[:, :2, 0].T * moved[0] + linear[:, :2, 1].T * moved[1])).T
    linear[:, 2, 2] = 1
    return linear
