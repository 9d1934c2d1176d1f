"""Optional parts of a batch's parameters, beyond one axis-aligned resampling and one affine map of colour."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..formulas.noise import normal_noise

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Channels:
    """Units of images of C channels that are not RGB or grey.

    The geometry is that of a batch without a border. Each channel is resampled by itself, and a resampled
    uint8 is rounded after each axis, as Pillow does. The steps are displacements. Then each level x becomes
    ``scale * x + shift``.
    """

    scale: npt.NDArray[np.float32]  # (C,) float32
    shift: npt.NDArray[np.float32]  # (C,) float32
    fill: npt.NDArray[np.float32]  # (C,) float32, level of padding


@dataclass(frozen=True)
class Warp:
    """Geometry that is not along the axes: the output shows the canvas, and the canvas the source.

    The canvas is the image that ``region``, ``dest`` and ``flip`` describe; its size may differ from the
    output's. An engine need not make it: the two maps are composed
    (:meth:`stoker.augment.params.image_params.ImageParams.to_source`), and the source is resampled once.

    The centre of the output's pixel (column c, row r) is (c + 0.5, r + 0.5). The map takes it to (u, v) in
    the source. Edges of pixels are integers. The filter is a triangle along either axis, as wide as
    antialiasing needs it there::

        sx = max(1, hypot(du/dc, du/dr))        sy = max(1, hypot(dv/dc, dv/dr))
        weight(i, j) = max(0, 1 - |i + 0.5 - u| / sx) * max(0, 1 - |j + 0.5 - v| / sy)

    for the source's pixel in column i and row j, divided by the sum of the weights over all integers i
    and j. Pixels outside of ``floor(region start)..ceil(region stop)`` count as ``fill``, and so does
    everything where the map's third component is not positive. The sum is rounded half up to uint8.

    A sample whose matrix is the identity, on a canvas of the output's size, is not warped: its image is
    the same as in a batch without a warp, and no fill is mixed into the border (:meth:`applies`).

    Samples that are ``nearest`` are not resampled in this way. Their canvas is made like the image of a batch
    without a warp, by the interpolation of its resize and rounded to uint8. Each pixel of the output takes
    the pixel of the canvas into which its centre falls, ``floor(x), floor(y)``; ``fill`` outside of it.

    Where nothing shrinks, the filter is bilinear interpolation. Where nothing turns, and away from the
    border, it is Pillow's antialiased ``BILINEAR``. An engine may decode a JPEG in a reduced size where both
    supports are at least 4 all over the image.
    """

    # (N, 3, 3) float64, from homogeneous (x, y, 1) in the output to the canvas
    matrix: npt.NDArray[np.float64]
    canvas: tuple[int, int]  # Height and width of the canvas, pixels
    perspective: bool = False  # Whether the last row of a matrix may differ from (0, 0, 1)
    # (N,) bool, samples that pick pixels of the canvas; None where no sample can
    nearest: npt.NDArray[np.bool_] | None = None
    # Whether the canvas has less detail than the output, so that engines must not make it
    direct: bool = False

    def take(self, rows: Rows) -> Warp:
        """The same for the samples at ``rows``, (M,)."""
        nearest = None if self.nearest is None else self.nearest[rows]
        return replace(self, matrix=self.matrix[rows], nearest=nearest)

    def applies(self, i: int, size: tuple[int, int]) -> bool:
        """Whether sample ``i`` is warped, for outputs of ``size``, height and width."""
        return self.canvas != size or not np.array_equal(self.matrix[i], np.eye(3))

    def picks(self, i: int) -> bool:
        """Whether sample ``i``, where it is warped, takes pixels of the canvas as they are."""
        return self.nearest is not None and bool(self.nearest[i])


@dataclass(frozen=True)
class Border:
    """Padding that continues the image, by showing some of its rows and columns again.

    ``region``, ``dest``, ``flip`` and ``fill`` then describe a tile, whose size may differ from sample to
    sample. The pixel of the output in row r and column c is the tile's in row ``rows[r]`` and column
    ``columns[c]``. With a warp, too, the rows and columns are those of its canvas: the canvas is made and
    rounded to uint8, and the warp resamples it or picks its pixels.
    """

    size: npt.NDArray[np.int32]  # (N, 2) int32, height and width of the tile, pixels
    # (N, 2) int32, the row and column of the tile, or outside of it, at which the output begins: where
    # nothing is continued, ``rows[r]`` is ``origin + r``
    origin: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]  # (N, H) int32, where H is the height of the output, or of the canvas
    columns: npt.NDArray[np.int32]  # (N, W) int32, where W is the width of the output, or of the canvas

    def take(self, rows: Rows) -> Border:
        """The same for the samples at ``rows``, (M,)."""
        return Border(self.size[rows], self.origin[rows], self.rows[rows], self.columns[rows])


@dataclass(frozen=True)
class Noise:
    """Normal noise, for each pixel and channel."""

    keys: npt.NDArray[np.uint64]  # (N,) uint64, of :func:`stoker.augment.formulas.noise.normal_noise`
    # (3,) float32, RGB, or (C,), in the units of the output: the noise is multiplied by it, in float32
    deviation: npt.NDArray[np.float32]


@dataclass(frozen=True)
class Erase:
    """A box of the finished image that is overwritten."""

    # (N, 4) int32, top, left, height, width in the output; height or width 0 for none
    box: npt.NDArray[np.int32]
    value: npt.NDArray[np.float32]  # (3,) float32, RGB, or (C,), in the units of the output
    noise: Noise | None = None  # Noise that is added to ``value``, or None

    def take(self, rows: Rows) -> Erase:
        """The same for the samples at ``rows``, (M,)."""
        noise = self.noise and replace(self.noise, keys=self.noise.keys[rows])
        return replace(self, box=self.box[rows], noise=noise)

    def content(self, i: int, width: int) -> npt.NDArray[np.float32]:
        """Pixels of the box of sample ``i``, in an image of ``width``: (C,), or (height, width, C)."""
        if self.noise is None:
            return self.value
        top, left, rows, columns = self.box[i].tolist()
        box = top, left, rows, columns
        normal = normal_noise(int(self.noise.keys[i]), box, width, len(self.value))
        return normal * self.noise.deviation + self.value


@dataclass(frozen=True)
class MeanImage:
    """An image that is subtracted from each finished image, after the geometry of that image.

    ``crop`` and ``region`` replace the image's, whose ``dest``, ``flip`` and ``interpolation``
    hold for the mean as well. It is resampled in floats, and not rounded. Outside of ``dest`` it is zero.
    """

    levels: npt.NDArray[np.float32]  # (H, W, C) float32, in levels of the stored images; of grey, C is 1
    # (N,) bool, images that it is subtracted from: all that show more than padding
    where: npt.NDArray[np.bool_]
    crop: npt.NDArray[np.int32]  # (N, 4) int32, top, left, height, width in the mean image
    region: npt.NDArray[np.float64]  # (N, 4) float64, top, left, bottom, right in the mean image
    units: Channels  # Scale of each channel, as for the image; no shift, and a fill of zero
