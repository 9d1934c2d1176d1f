"""Targets of top-down pose estimation, and the keypoints that a model's outputs mean; users call them.

Coordinates (x, y) of an image are integers at the edges of pixels. A cell of a heat map covers ``stride``
pixels, and its centre stands for it: the first is at ``stride / 2``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

Float = npt.NDArray[np.float64]
Float32 = npt.NDArray[np.float32]


_REACH = 3  # standard deviations, beyond which a keypoint outside of the image makes no target


def heatmaps(
    keypoints: npt.ArrayLike, size: tuple[int, int], *, stride: int = 4, sigma: float = 2.0
) -> tuple[Float32, Float32]:
    """Return heat maps of keypoints, and their weights; ConfigError where shapes do not fit.

    A map is a Gaussian whose largest value, 1, is at the keypoint (Xiao et al., "Simple baselines", ECCV
    2018, without the rounding to a cell: Zhang et al., "DARK", CVPR 2020).

    Args:
        keypoints: (..., K, 3), x, y in pixels of the image and visibility, as of the column "keypoints".
        size: Height and width of the image, pixels; multiples of ``stride``.
        stride: Pixels of a cell.
        sigma: Standard deviation of the Gaussians, cells.

    Returns:
        Heat maps, (..., K, height / stride, width / stride) float32; and weights, (..., K) float32: 1 for a
        labelled keypoint, whether hidden or visible, 0 for others and those far outside of the image.
    """
    points = _points(keypoints)
    if stride < 1 or size[0] % stride or size[1] % stride:
        raise ConfigError(f"the size {tuple(size)} must be multiples of stride, {stride}")
    weights = _weights(points, size, _REACH * sigma * stride)
    across, down = (
        _gaussian((np.arange(side // stride) + 0.5) * stride, points[..., axis], sigma * stride)
        for axis, side in ((0, size[1]), (1, size[0]))
    )
    maps = down[..., :, None] * across[..., None, :] * weights[..., None, None]
    return maps.astype(np.float32), weights


def from_heatmaps(maps: npt.ArrayLike, *, stride: int = 4) -> Float:
    """Return the keypoints at the largest values of heat maps.

    A keypoint is moved by a quarter of a cell towards the larger neighbour along each axis, as Simple
    Baselines does.

    Args:
        maps: (..., K, H, W), such as a model's outputs.
        stride: Pixels of a cell.

    Returns:
        (..., K, 3) float64: x, y in pixels of the image, and the largest value, which is a score.
    """
    values = np.asarray(maps, np.float64)
    if values.ndim < 3:
        raise ConfigError(f"heat maps must be (..., K, H, W), found {values.shape}")
    height, width = values.shape[-2:]
    flat = values.reshape(-1, height, width)
    n = np.arange(len(flat))
    row, column = np.divmod(flat.reshape(len(flat), -1).argmax(axis=1), width)
    padded = np.pad(flat, ((0, 0), (1, 1), (1, 1)), mode="edge")
    x = column + 0.5 + 0.25 * np.sign(padded[n, row + 1, column + 2] - padded[n, row + 1, column])
    y = row + 0.5 + 0.25 * np.sign(padded[n, row + 2, column + 1] - padded[n, row, column + 1])
    keypoints = np.stack((x * stride, y * stride, flat[n, row, column]), axis=-1)
    return keypoints.reshape(*values.shape[:-2], 3)


def simcc(
    keypoints: npt.ArrayLike,
    size: tuple[int, int],
    *,
    split: float = 2.0,
    sigma: float | tuple[float, float] = 6.0,
) -> tuple[Float32, Float32, Float32]:
    """Return the targets of SimCC (Li et al., "SimCC", ECCV 2022): a Gaussian along each axis.

    Args:
        keypoints: As of :func:`heatmaps`.
        size: Height and width of the image, pixels.
        split: Bins of a pixel.
        sigma: Standard deviation of the Gaussians, bins; or two of them, along x and y.

    Returns:
        Along x (..., K, width * split) float32, along y (..., K, height * split) float32, with the largest
        value 1; and weights as of :func:`heatmaps`.
    """
    points = _points(keypoints)
    deviations = np.broadcast_to(np.asarray(sigma, np.float64), (2,)) / split
    weights = _weights(points, size, _REACH * float(deviations.max()))
    along_x, along_y = (
        _gaussian((np.arange(round(side * split)) + 0.5) / split, points[..., axis], float(deviations[axis]))
        for axis, side in ((0, size[1]), (1, size[0]))
    )
    shown = weights[..., None]
    return (along_x * shown).astype(np.float32), (along_y * shown).astype(np.float32), weights


def from_simcc(along_x: npt.ArrayLike, along_y: npt.ArrayLike, *, split: float = 2.0) -> Float:
    """Return the keypoints of SimCC's outputs, (..., K, bins), as :func:`from_heatmaps`.

    They are at the bins with the largest values; the score is the smaller of both values.
    """
    x, y = np.asarray(along_x, np.float64), np.asarray(along_y, np.float64)
    score = np.minimum(x.max(axis=-1), y.max(axis=-1))
    return np.stack(((x.argmax(axis=-1) + 0.5) / split, (y.argmax(axis=-1) + 0.5) / split, score), axis=-1)


def _points(keypoints: Any) -> Float:
    points = np.asarray(keypoints, np.float64)
    if points.ndim < 2 or points.shape[-1] != 3:
        raise ConfigError(f"keypoints must be (..., K, 3), found {points.shape}")
    return points


def _weights(points: Float, size: tuple[int, int], reach: float) -> Float32:
    limit = np.array((size[1], size[0])) + reach
    near = ((points[..., :2] > -reach) & (points[..., :2] < limit)).all(axis=-1)
    return ((points[..., 2] > 0) & near).astype(np.float32)


def _gaussian(cells: npt.NDArray[Any], points: Float, sigma: float) -> Float:
    """(..., C), the values at ``cells``, (C,), of Gaussians around ``points``."""
    return np.asarray(np.exp(-((cells - points[..., None]) ** 2) / (2 * sigma**2)))
