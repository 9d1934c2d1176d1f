"""What parameters may ask for beyond one axis-aligned resampling and one affine map of colour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..noise import normal_noise

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Border", "Erase", "Noise", "Warp"]


@dataclass(frozen=True)
class Warp:
    """Geometry that is not along the axes: the output shows the canvas, and the canvas the source.

    The canvas is the image that ``region``, ``dest`` and ``flip`` describe; it has a size of its own,
    to which ``dest`` and ``flip`` refer. It is only a stage of thought: the two maps are composed
    (:meth:`stoker.augment.params.image_params.ImageParams.to_source`), and the source is resampled once.

    Let (u, v) be the place in the source, x and y with the edges of pixels at integers, of the centre
    (c + 0.5, r + 0.5) of the output's pixel in column c and row r. The filter is a triangle along
    either axis, as wide as antialiasing wants it there::

        sx = max(1, hypot(du/dc, du/dr))        sy = max(1, hypot(dv/dc, dv/dr))
        weight(i, j) = max(0, 1 - |i + 0.5 - u| / sx) * max(0, 1 - |j + 0.5 - v| / sy)

    for the source's pixel in column i and row j, divided by the sum of the weights over all integers i
    and j. Pixels outside of ``floor(region start)..ceil(region stop)`` count as ``fill``, and so does
    everything where the map's third component is not positive. The sum is rounded half up to uint8.

    A sample whose matrix is the identity, on a canvas of the output's size, is not warped: its image is
    that of a batch without a warp, where no fill is mixed into the border (:meth:`applies`).

    Samples that are ``nearest`` are not resampled so. Their canvas is made as the image of a batch without
    a warp is, by the interpolation of its resize and rounded to uint8, and a pixel of the output takes that
    of the canvas which its centre falls into, ``floor(x), floor(y)``; ``fill`` where there is none.

    Otherwise it is bilinear interpolation where nothing shrinks, along the axes or turned, and away from
    the border it is Pillow's antialiased ``BILINEAR`` where nothing turns. An engine may decode a JPEG in
    a reduced size where both supports are at least 2 all over the image.

    Attributes:
        matrix: (N, 3, 3) float64, from homogeneous (x, y, 1) in the output to the canvas.
        canvas: Height and width of the canvas, pixels.
        perspective: Whether the last row of a matrix may differ from (0, 0, 1).
        nearest: (N,) bool; None where no sample can be.
    """

    matrix: npt.NDArray[np.float64]
    canvas: tuple[int, int]
    perspective: bool = False
    nearest: npt.NDArray[np.bool_] | None = None

    def applies(self, i: int, size: tuple[int, int]) -> bool:
        """Whether sample ``i`` is warped, for outputs of ``size``, height and width."""
        return self.canvas != size or not np.array_equal(self.matrix[i], np.eye(3))

    def picks(self, i: int) -> bool:
        """Whether sample ``i``, where it is warped, takes pixels of the canvas as they are."""
        return self.nearest is not None and bool(self.nearest[i])


@dataclass(frozen=True)
class Border:
    """Padding that continues the image: rows and columns of it that are shown, some of them again.

    What ``region``, ``dest``, ``flip`` and ``fill`` describe is a tile then, of a size of its own for each
    sample. The pixel of the output in row r and column c is that of the tile in row ``rows[r]`` and column
    ``columns[c]``. Where there is a warp, too, that is a pixel of its canvas, which is made as it is said
    there of ``nearest``, and of which the warp is a resampling, or picks pixels.

    Attributes:
        size: (N, 2) int32, height and width of the tile, pixels.
        origin: (N, 2) int32, the row and column of the tile, or outside of it, at which the output begins:
            where nothing is continued, ``rows[r]`` is ``origin + r``.
        rows: (N, H) int32, with the height of the output, or the canvas.
        columns: (N, W) int32, likewise.
    """

    size: npt.NDArray[np.int32]
    origin: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]
    columns: npt.NDArray[np.int32]


@dataclass(frozen=True)
class Noise:
    """Normal noise, for each pixel and channel.

    Attributes:
        keys: (N,) uint64, of :func:`stoker.augment.noise.normal_noise`.
        deviation: (3,) float32, RGB, in the units of the output: what it is multiplied by, in float32.
    """

    keys: npt.NDArray[np.uint64]
    deviation: npt.NDArray[np.float32]


@dataclass(frozen=True)
class Erase:
    """A box of the finished image that is overwritten.

    Attributes:
        box: (N, 4) int32, top, left, height, width in the output; height or width 0 for none.
        value: (3,) float32, RGB, in the units of the output.
        noise: What is added to ``value``, or None.
    """

    box: npt.NDArray[np.int32]
    value: npt.NDArray[np.float32]
    noise: Noise | None = None

    def content(self, i: int, width: int) -> npt.NDArray[np.float32]:
        """What comes into the box of sample ``i`` of an image of ``width``: (3,), or (height, width, 3)."""
        if self.noise is None:
            return self.value
        top, left, rows, columns = self.box[i].tolist()
        normal = normal_noise(int(self.noise.keys[i]), (top, left, rows, columns), width)
        return normal * self.noise.deviation + self.value
