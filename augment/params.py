"""Parameters of a batch: what the transforms decided, and all that an engine needs to execute it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from stoker.types import Size

from .noise import normal_noise
from .steps import PerSample, Step, step_names

Int = npt.NDArray[np.int64]

WHOLE = -1  # the tile of a part outside of any mosaic
WHOLE_SHARE = 1 << 16  # the share of a layer that hides the layers below it


@dataclass(frozen=True, eq=False)
class Parts(PerSample):
    """P parts of N images, by image and layer. A part is what an image shows of one sample."""

    image: Int  # (P,), index in the batch of the image, ascending from 0
    layer: Int  # (P,), layer of the image, ascending within it from 0
    tile: Int  # (P,), tile of the layer's mosaic, 0 to 3, or ``WHOLE``
    draw: Int  # (P,), draw of the epoch whose sample is shown
    keys: Int  # (P,), keys of random numbers until layers are merged. Each layer has its own
    image_keys: Int  # (P,), keys of the image's random numbers after that

    @classmethod
    def of(cls, keys: Int, draws: Int | None = None) -> Parts:
        """N images that show one sample each, of ``keys`` and ``draws``, (N,)."""
        index = np.arange(len(keys))
        draws = index * 0 if draws is None else draws
        return cls(index, index * 0, index * 0 + WHOLE, draws, keys, keys)

    def __len__(self) -> int:
        return len(self.image)

    def joined(self, others: Parts) -> Parts:
        """These and other parts of the same images, in their order."""
        pairs = ((getattr(self, one.name), getattr(others, one.name)) for one in fields(self))
        both = Parts(*map(np.concatenate, pairs))
        return both.take(np.lexsort((both.tile, both.layer, both.image)))


@dataclass(frozen=True, eq=False)
class Paste:
    """The rule by which objects of upper layers are pasted. Engines get only the masks of these objects."""

    keys: npt.NDArray[np.uint64]  # (P,) uint64, keys of the choice of objects
    share: float  # Probability of each object
    min_left: float  # Least share of the mask of a lower object that must not be covered


@dataclass(frozen=True, eq=False)
class Composition:
    """How P parts, which show one sample each, become N images.

    The parameters have a row for each part. For each image, in this order: a canvas is filled with ``fill``;
    each part of layer 0 is resampled onto its rectangle of the canvas; each further layer is made in the same
    way on its own canvas and merged with the layers below; steps, ``color`` and boxes to erase of the image's
    first part follow. A warped part is seen at the pixels whose centres the warp maps into its rectangle.
    """

    image: npt.NDArray[np.int32]  # (P,) int32, index of the image, ascending from 0 without gaps
    # (P,) bool, True for parts that are seen at least partly. The samples of others are not read
    shown: npt.NDArray[np.bool_]
    layer: npt.NDArray[np.uint8]  # (P,) uint8, ascending within an image from 0 without gaps
    share: npt.NDArray[np.int32]  # (P,) int32, weight s of the layer, in 65536ths
    # (P,) int32, the mask whose pixels the layer replaces, without regard to ``share``; -1 for none
    mask: npt.NDArray[np.int32]
    # (K * H * W,) uint8, K masks of the output's size. The layer replaces pixels that are not 0
    masks: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    paste: Paste | None = None  # The rule for the objects to paste, whose masks the loader draws

    @property
    def count(self) -> int:
        """N, the number of images."""
        return int(self.image[-1]) + 1 if len(self.image) else 0

    @property
    def first(self) -> npt.NDArray[np.int64]:
        """(N,) int64, the first part of each image."""
        return np.flatnonzero(np.diff(self.image, prepend=-1))


@dataclass(frozen=True)
class Channels:
    """Units of images of C channels that are not RGB or grey: each level x becomes ``scale * x + shift``.

    Each channel is resampled by itself, and a resampled uint8 is rounded after each axis, as Pillow does. The
    steps before are displacements.
    """

    scale: npt.NDArray[np.float32]  # (C,) float32
    shift: npt.NDArray[np.float32]  # (C,) float32
    fill: npt.NDArray[np.float32]  # (C,) float32, level of padding


@dataclass(frozen=True)
class Warp(PerSample):
    """Geometry that is not along the axes: the output shows the canvas, and the canvas the source.

    The canvas is the image that ``region``, ``dest`` and ``flip`` describe; its size may differ from the
    output's. The two maps are composed (:meth:`ImageParams.to_source`), and the source is resampled once.

    The centre of the output's pixel (column c, row r) is (c + 0.5, r + 0.5). The map takes it to (u, v) in
    the source. The filter is a triangle along either axis, as wide as antialiasing needs it there::

        sx = max(1, hypot(du/dc, du/dr))        sy = max(1, hypot(dv/dc, dv/dr))
        weight(i, j) = max(0, 1 - |i + 0.5 - u| / sx) * max(0, 1 - |j + 0.5 - v| / sy)

    for the source's pixel in column i and row j, divided by the sum of the weights over all integers i
    and j. Pixels outside of ``floor(region start)..ceil(region stop)`` count as ``fill``, and so does
    everything where the map's third component is not positive. The sum is rounded half up to uint8.

    A sample whose matrix is the identity, on a canvas of the output's size, is not warped (:meth:`applies`).
    Samples that are ``nearest`` are not resampled in this way: their canvas is made like the image of a batch
    without a warp, and each pixel of the output takes the pixel of the canvas into which its centre falls,
    ``floor(x), floor(y)``; ``fill`` outside of it. An engine may decode a JPEG in a reduced size where both
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

    def applies(self, i: int, size: tuple[int, int]) -> bool:
        """Whether sample ``i`` is warped, for outputs of ``size``, height and width."""
        return self.canvas != size or not np.array_equal(self.matrix[i], np.eye(3))

    def picks(self, i: int) -> bool:
        """Whether sample ``i``, where it is warped, takes pixels of the canvas as they are."""
        return self.nearest is not None and bool(self.nearest[i])


@dataclass(frozen=True)
class Border(PerSample):
    """Padding that continues the image, by showing some of its rows and columns again.

    ``region``, ``dest``, ``flip`` and ``fill`` then describe a tile. The pixel of the output in row r and
    column c is the tile's in row ``rows[r]`` and column ``columns[c]``. With a warp they are rows and columns
    of its canvas, which is made and rounded to uint8.
    """

    size: npt.NDArray[np.int32]  # (N, 2) int32, height and width of the tile, pixels
    # (N, 2) int32, the row and column of the tile, or outside of it, at which the output begins: where
    # nothing is continued, ``rows[r]`` is ``origin + r``
    origin: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]  # (N, H) int32, where H is the height of the output, or of the canvas
    columns: npt.NDArray[np.int32]  # (N, W) int32, where W is the width of the output, or of the canvas


@dataclass(frozen=True)
class Noise(PerSample):
    """Normal noise, for each pixel and channel."""

    keys: npt.NDArray[np.uint64]  # (N,) uint64, of :func:`stoker.augment.noise.normal_noise`
    # (3,) float32, RGB, or (C,), in the units of the output: the noise is multiplied by it, in float32
    deviation: npt.NDArray[np.float32]

    shared: ClassVar[frozenset[str]] = frozenset({"deviation"})


@dataclass(frozen=True)
class Erase(PerSample):
    """A box of the finished image that is overwritten."""

    # (N, 4) int32, top, left, height, width in the output; height or width 0 for none
    box: npt.NDArray[np.int32]
    value: npt.NDArray[np.float32]  # (3,) float32, RGB, or (C,), in the units of the output
    noise: Noise | None = None  # Noise that is added to ``value``, or None

    shared: ClassVar[frozenset[str]] = frozenset({"value"})

    def content(self, i: int, width: int) -> npt.NDArray[np.float32]:
        """Pixels of the box of sample ``i``, in an image of ``width``: (C,), or (height, width, C)."""
        if self.noise is None:
            return self.value
        box = tuple(self.box[i].tolist())
        normal = normal_noise(int(self.noise.keys[i]), box, width, len(self.value))
        return normal * self.noise.deviation + self.value


@dataclass(frozen=True)
class MeanImage:
    """An image that is subtracted from each finished image, resampled in floats by the image's geometry."""

    levels: npt.NDArray[np.float32]  # (H, W, C) float32, in levels of the stored images; of grey, C is 1
    # (N,) bool, images that it is subtracted from: all that show more than padding
    where: npt.NDArray[np.bool_]
    crop: npt.NDArray[np.int32]  # (N, 4) int32, top, left, height, width in the mean image
    region: npt.NDArray[np.float64]  # (N, 4) float64, top, left, bottom, right in the mean image
    units: Channels  # Scale of each channel, as for the image; no shift, and a fill of zero


@dataclass(frozen=True)
class ImageParams(PerSample):
    """How N images become N arrays of one size.

    For each sample, in this order: ``crop`` is cut out of the oriented source; ``region`` of the
    source is resampled (by Pillow's antialiased bilinear filter, unless ``interpolation`` names another) onto
    the rectangle ``dest`` of the output, reading no pixel outside ``crop`` and rounding to uint8; the rest of
    the output is ``fill``; the output is mirrored by ``flip``; then each pixel becomes
    ``color[:, :3] @ rgb + color[:, 3]`` with rgb in 0..255. A ``warp`` defines another resampling.

    A field whose default is None asks for more than that if it is set; :meth:`needs` names these.

    Attributes:
        size: Height and width of the output, pixels, the same for all samples. If images have an
            ``image_size``, height and width of the array that holds them.
        crop: (N, 4) int32, top, left, height, width in pixels of the oriented source; within it.
        region: (N, 4) float64, top, left, bottom, right in the same coordinates (edges of pixels,
            as Pillow's ``resize(box=)``); within ``crop``.
        dest: (N, 4) int32, top, left, height, width in the output.
        flip: (N, 2) bool, horizontally, vertically.
        color: (N, 3, 4) float32; contains dtype scaling and normalisation.
        fill: (3,) uint8, RGB.
        interpolation: (N,) uint8, :class:`stoker.augment.resampling.Interpolation` of samples that are not
            warped, or of their canvas where pixels are picked from it.
        mean_matrix: (N, 3, 3) float32. ``mean_matrix @ m`` is added to the result, where m is the mean RGB
            of the output before ``color``, fill included.
        steps: Operations on the pixels, one after the other, before ``color``.
        warp: Geometry that is not along the axes; ``dest`` and ``flip`` then refer to its canvas.
        border: Padding that continues the image; ``dest`` and ``flip`` then refer to its tile.
        erase: Boxes that are overwritten last, one after the other.
        mean_image: An image that is subtracted from the result, under the same geometry.
        image_size: (N, 2) int32, height and width of each image, which lies at the top left of its slot in
            the array; zeros fill the rest. Everything else refers to this size as the output's.
        plain: Set if images may be resampled without antialiasing: "bilinear" if all are bilinear and do not
            antialias, else "mixed". ``interpolation`` says how each one is resampled.
        window: (N, 4) float64, top, left, bottom, right in the source: an object whose box has its centre
            outside no longer belongs to the image. Engines ignore it.
        empty: (N,) bool, images that show only padding. Engines ignore it.
        composition: How these images, which show one sample each, are parts of other images.
        channels: Units of images that are not RGB or grey, in place of ``color`` and ``fill``.
    """

    size: Size
    crop: npt.NDArray[np.int32]
    region: npt.NDArray[np.float64]
    dest: npt.NDArray[np.int32]
    flip: npt.NDArray[np.bool_]
    color: npt.NDArray[np.float32]
    fill: npt.NDArray[np.uint8]
    interpolation: npt.NDArray[np.uint8] | None = None
    mean_matrix: npt.NDArray[np.float32] | None = None
    steps: tuple[Step, ...] | None = None
    warp: Warp | None = None
    border: Border | None = None
    erase: tuple[Erase, ...] | None = None
    mean_image: MeanImage | None = None
    image_size: npt.NDArray[np.int32] | None = None
    plain: Literal["bilinear", "mixed"] | None = None
    window: npt.NDArray[np.float64] | None = None
    empty: npt.NDArray[np.bool_] | None = None
    composition: Composition | None = None
    channels: Channels | None = None

    shared: ClassVar[frozenset[str]] = frozenset({"fill"})

    def __len__(self) -> int:
        return len(self.crop)

    @property
    def image_count(self) -> int:
        """The number of images of the batch, which is fewer than ``len`` where images have several parts."""
        return len(self) if self.composition is None else self.composition.count

    def size_of(self, i: int) -> Size:
        """Height and width of image ``i``, pixels."""
        if self.image_size is None:
            return self.size
        height, width = self.image_size[i].tolist()
        return height, width

    def needs(self) -> frozenset[str]:
        """Names of the optional fields that are set, the classes of the steps, and what warps may do."""
        optional = {field.name for field in fields(self) if field.default is None}
        optional -= {"steps", "plain", "window", "empty"}
        names = frozenset(name for name in optional if getattr(self, name) is not None)
        if warp := self.warp:
            asked = {
                "perspective": warp.perspective,
                "nearest": warp.nearest is not None,
                "direct": warp.direct,
            }
            names |= {name for name, is_asked in asked.items() if is_asked}
        if any(one.noise is not None for one in self.erase or ()):
            names |= {"noise"}
        if self.plain:
            names |= {"antialias=False"}
        if self.plain == "mixed" or (self.plain and self.warp is not None):
            names |= {"antialias=False beside other resizes, warps or bicubic"}
        return names | step_names(self.steps or ())

    def to_source(self) -> npt.NDArray[np.float64]:
        """(N, 3, 3), from homogeneous (x, y, 1) in the output to the source; edges of pixels are integers."""
        dest = self.dest.astype(np.float64)
        scale = (self.region[:, 2:] - self.region[:, :2]) / dest[:, 2:]
        flip = self.flip[:, ::-1]
        size = self.upright_size()
        matrix = np.zeros((len(self), 3, 3))
        # Fields of this class have the vertical axis first, points the horizontal one.
        matrix[:, [1, 0], [1, 0]] = np.where(flip, -scale, scale)
        matrix[:, [1, 0], 2] = self.region[:, :2] + np.where(flip, size - dest[:, :2], -dest[:, :2]) * scale
        matrix[:, 2, 2] = 1
        if self.border is not None:
            matrix[:, :2, 2] += matrix[:, [0, 1], [0, 1]] * self.border.origin[:, ::-1]
        return matrix @ self.warp.matrix if self.warp else matrix

    def upright_size(self) -> npt.NDArray[np.integer[Any]]:
        """Heights and widths, (N, 2) or (2,), of the images that ``dest`` and ``flip`` refer to."""
        if self.border is not None:
            return self.border.size
        if self.image_size is not None:
            return self.image_size
        return np.array(self.warp.canvas if self.warp else self.size)
