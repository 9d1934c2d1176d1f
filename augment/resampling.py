"""Interpolation of resized images by its names, and projective maps of points and images in slow exact NumPy.

All interpolations but nearest and the plain ones antialias: if an image shrinks n times, the filter becomes n
times wider, as in torchvision with ``antialias=True`` and in Pillow's ``Image.resize``. Rows are resampled
first, then columns, and each of the two passes rounds and clips to uint8. (Since Pillow 13 its own order
depends on the sizes; filters with negative weights then differ by a few levels.)
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from enum import Enum, IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]
Pixels = npt.NDArray[Any]
Indices = npt.NDArray[np.intp]
Color = Sequence[float] | npt.NDArray[np.floating[Any]]


class Interpolation(IntEnum):
    """Filters of a resize, with their numbers in parameters and engines."""

    NEAREST = 0
    """The pixel into which the output pixel's centre falls, ``floor(start + (i + 0.5) * scale)``, as in
    Pillow, in torchvision's "nearest" on Pillow's images, and in its "nearest-exact". Its "nearest" on
    tensors is ``floor(i * scale)``."""
    BILINEAR = 1
    """A triangle."""
    BICUBIC = 2
    """Keys' cubic convolution with a = -0.5, as in Pillow, and in torch where it antialiases."""
    LANCZOS = 3
    """sinc(x) * sinc(x / 3); torchvision has it only for Pillow's images."""

    PLAIN_BILINEAR = 4
    """Bilinear with ``antialias=False``: the two nearest pixels of each axis, however much an image shrinks.
    At the border the last pixel counts for those beyond it."""
    PLAIN_BICUBIC = 5
    """The same with the four nearest pixels, by Keys' cubic convolution with a = -0.75, as in torch."""

    @property
    def plain(self) -> Interpolation:
        """The same without antialiasing; KeyError where there is none."""
        return Interpolation[f"PLAIN_{self.name}"]

    @classmethod
    def of(cls, given: object) -> Interpolation:
        """The filter of a name, such as "bicubic", or of torchvision's InterpolationMode; or KeyError."""
        if isinstance(given, cls):
            return given
        name = given.value if isinstance(given, Enum) else given
        names = {one.name.lower(): one for one in NAMED} | {"nearest-exact": cls.NEAREST}
        return names[str(name)]


NAMED = (Interpolation.NEAREST, Interpolation.BILINEAR, Interpolation.BICUBIC, Interpolation.LANCZOS)
WARPING = (Interpolation.NEAREST, Interpolation.BILINEAR)

SUPPORT = np.array([0.0, 1.0, 2.0, 3.0, 1.0, 2.0])
"""How far each filter reaches to both sides: pixels, or output pixels where those are larger."""

_TILE = 16  # side of the squares of output that are computed at once: they need small parts of the source
_FAR = 1e9  # distance in pixels, and factor of shrinking, from which on nothing but fill is seen


def resample(
    source: Pixels,
    matrix: Float,
    size: tuple[int, int],
    fill: Color,
    window: tuple[int, int, int, int] | None = None,
) -> Pixels:
    """Resample an image, (H, W, C), by a (3, 3) matrix as :class:`stoker.augment.params.Warp` defines it."""
    if source.dtype.kind == "f" and np.isnan(source).any():
        holes = resample(np.isnan(source).astype(np.float64), matrix, size, np.zeros(len(fill)), window)
        resampled = resample(np.where(np.isnan(source), 0, source), matrix, size, fill, window)
        return np.where(holes > 0, np.nan, resampled)
    top, left, bottom, right = window or (0, 0, *source.shape[:2])
    rounds, channels = source.dtype == np.uint8, source.shape[2]
    output = np.empty((*size, channels), np.uint8 if rounds else np.float64)
    for row, column in itertools.product(range(0, size[0], _TILE), range(0, size[1], _TILE)):
        tile = output[row : row + _TILE, column : column + _TILE]
        y, x = np.indices(tile.shape[:2], np.float64).reshape(2, -1)
        (u, v), (support_x, support_y), seen = _source_points(matrix, x + column + 0.5, y + row + 0.5)
        first_x, weights_x = _weights(u, support_x, left, right)
        first_y, weights_y = _weights(v, support_y, top, bottom)
        part = source[first_y : first_y + weights_y.shape[1], first_x : first_x + weights_x.shape[1]]
        above_fill = (part.astype(np.float64) - fill).reshape(len(part), -1)
        # A vector at a time, not one product of matrices: BLAS would start threads for so little.
        columns = np.matmul(weights_y[:, None], above_fill).reshape(len(x), -1, channels)
        values = np.einsum("px,pxc->pc", weights_x, columns)
        values = fill + np.where(seen[:, None], values, 0.0)
        tile[:] = (np.floor(values + 0.5) if rounds else values).reshape(tile.shape)
    return output


def interpolate(source: Pixels, axis: int, span: tuple[float, float], count: int, *, cubic: bool) -> Pixels:
    """Resize an image along one axis without antialiasing, as ``torch.nn.functional.interpolate`` does."""
    centers = span[0] + (np.arange(count) + 0.5) * ((span[1] - span[0]) / count)
    radius = 2 if cubic else 1
    taps = np.floor(centers - 0.5).astype(np.intp)[:, None] + np.arange(1 - radius, 1 + radius)
    distance = np.abs(taps + 0.5 - centers[:, None])
    weights = _cubic(distance) if cubic else 1 - distance
    parts = np.moveaxis(source, axis, 0)[taps.clip(0, source.shape[axis] - 1)].astype(np.float64)
    resized: Pixels = np.moveaxis(np.einsum("ot,ot...->o...", weights, parts), 0, axis)
    return np.floor(resized.clip(0, 255) + 0.5).astype(np.uint8) if source.dtype == np.uint8 else resized


def _cubic(distance: Float) -> Float:
    """Keys' cubic convolution with a = -0.75, at distances below 2."""
    near = (1.25 * distance - 2.25) * distance**2 + 1
    return np.where(distance < 1, near, ((3.75 - 0.75 * distance) * distance - 6) * distance + 3)


def pick(source: Pixels, matrix: Float, size: tuple[int, int], fill: Color) -> Pixels:
    """As :func:`resample`, but each pixel takes the pixel of ``source`` that its centre falls into."""
    rows, columns = held_pixels(matrix, size, (source.shape[0], source.shape[1]))
    return np.where((rows >= 0)[..., None], source[rows, columns], np.array(fill, source.dtype))


def held_pixels(matrix: Float, size: tuple[int, int], source: tuple[int, int]) -> tuple[Indices, Indices]:
    """Row and column of the pixel of an image that holds the centre of each pixel of the output, or -1."""
    rows, columns = np.indices(size) + 0.5
    points = apply_matrix(matrix[None], np.stack((columns, rows), axis=-1).reshape(1, -1, 2))[0]
    x, y = points.T.reshape(2, *size)
    inside = (y >= 0) & (y < source[0]) & (x >= 0) & (x < source[1])
    return np.where(inside, y, -1).astype(np.intp), np.where(inside, x, -1).astype(np.intp)


def apply_matrix(matrix: Float, points: Float) -> Float:
    """Map points, (M, P, 2), by matrices, (M, 3, 3); points at or behind the horizon become infinite."""
    # C++ repeats the order of these sums and products; a library's product of matrices may fuse some of them.
    x, y = points[..., 0], points[..., 1]
    rows = matrix[..., None]  # (M, 3, 3, 1): a coefficient for all points of its matrix
    moved_x, moved_y, w = (x * rows[:, i, 0] + y * rows[:, i, 1] + rows[:, i, 2] for i in range(3))
    seen = w > 0
    divisor = np.where(seen, w, 1.0)
    return np.stack([np.where(seen, moved / divisor, np.inf) for moved in (moved_x, moved_y)], axis=-1)


def _source_points(matrix: Float, x: Float, y: Float) -> tuple[Float, Float, npt.NDArray[np.bool_]]:
    """Points in the source of P points and the filter's reach, (2, P) each; and which are seen, (P,)."""
    mapped = matrix @ np.stack((x, y, np.ones_like(x)))
    seen = mapped[2] > 0
    w = np.where(seen, mapped[2], 1.0)
    with np.errstate(over="ignore"):
        points = np.clip(mapped[:2] / w, -_FAR, _FAR)
        # The quotient rule: d(x / w) is (dx - x / w * dw) / w.
        steps = (matrix[:2, :2, None] - points[:, None] * matrix[2, :2, None]) / w
        return points, np.hypot(steps[:, 0], steps[:, 1]).clip(1, _FAR), seen


def _weights(coordinates: Float, support: Float, start: int, stop: int) -> tuple[int, Float]:
    """The first pixel of start..stop - 1 that the filters around P coordinates touch, and weights, (P, K)."""
    first = int(np.clip(np.floor((coordinates - support).min()), start, stop - 1))
    last = int(np.clip(np.ceil((coordinates + support).max()), first + 1, stop))
    centers = np.arange(first, last) + 0.5
    weights = np.maximum(1 - np.abs(centers - coordinates[:, None]) / support[:, None], 0.0)
    below = (coordinates - 0.5) % 1.0
    total = _half(below, support) + _half(1 - below, support)
    return first, weights / total[:, None]


def _half(distance: Float, support: Float) -> Float:
    """Sum of 1 - d / support over d = distance, distance + 1, ... below ``support``, (P,)."""
    n = np.maximum(np.ceil(support - distance), 0)
    return np.asarray(n - (n * distance + n * (n - 1) / 2) / support)
