"""Parameters of a batch: what the transforms decided, and all that an engine needs to execute it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from stoker.types import Size

from ..steps import Step, step_names
from .composition import Composition
from .optional_params import Border, Channels, Erase, MeanImage, Warp


@dataclass(frozen=True)
class ImageParams:
    """How N images become N arrays of one size.

    For each sample, in this order: ``crop`` is cut out of the oriented source; ``region`` of the
    source is resampled (by Pillow's antialiased bilinear filter, unless ``interpolation`` names another) onto
    the rectangle ``dest`` of the output, reading no pixel outside ``crop`` and rounding to uint8; the rest of
    the output is ``fill``; the output is mirrored by ``flip``; then each pixel becomes
    ``color[:, :3] @ rgb + color[:, 3]`` with rgb in 0..255. A ``warp`` defines another resampling.

    A field whose default is None asks for more than that if it is set. An engine must refuse parameters that
    set a field that it does not execute: see :meth:`needs`.

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
        interpolation: (N,) uint8, :class:`stoker.augment.geometry.interpolation.Interpolation`: the filter
            of samples that are not warped, or of their canvas where pixels are picked from it.
        mean_matrix: (N, 3, 3) float32. ``mean_matrix @ m`` is added to the result, where m is the mean RGB
            of the output before ``color``, fill included.
        steps: Operations on the pixels, one after the other, before ``color``; see
            :mod:`stoker.augment.steps`.
        warp: Geometry that is not along the axes; ``dest`` and ``flip`` then refer to its canvas.
        border: Padding that continues the image; ``dest`` and ``flip`` then refer to its tile.
        erase: Boxes that are overwritten last, one after the other.
        mean_image: An image that is subtracted from the result, under the same geometry.
        image_size: (N, 2) int32, height and width of each image, which lies at the top left of its slot in
            the array; zeros fill the rest. Everything else refers to this size as the output's. None where
            all images fill the array.
        plain: Set if images may be resampled without antialiasing: "bilinear" if all are bilinear and do not
            antialias, else "mixed". ``interpolation`` says how each one is resampled.
        window: (N, 4) float64, top, left, bottom, right in the source: an object whose box has its centre
            outside no longer belongs to the image. None for no such condition. Engines ignore it.
        empty: (N,) bool, images that show only padding; None for none. Engines ignore it.
        composition: How these images, which show one sample each, are parts of other images; None where they
            are the images of the batch.
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

    def __len__(self) -> int:
        return len(self.crop)

    @property
    def image_count(self) -> int:
        """The number of images of the batch, which is fewer than ``len`` where images have several parts."""
        return len(self) if self.composition is None else self.composition.count

    def take(self, rows: npt.NDArray[np.int64]) -> ImageParams:
        """The parameters of the samples at ``rows``, (M,), if :attr:`.plan.ImagePlan.is_divisible`."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "fill"}
        taken: dict[str, Any] = {
            name: value[rows] for name, value in values.items() if isinstance(value, np.ndarray)
        }
        taken["warp"] = self.warp and self.warp.take(rows)
        taken["border"] = self.border and self.border.take(rows)
        taken["steps"] = self.steps and tuple(step.take(rows) for step in self.steps)
        taken["erase"] = self.erase and tuple(erase.take(rows) for erase in self.erase)
        return replace(self, **taken)

    def size_of(self, i: int) -> Size:
        """Height and width of image ``i``, pixels."""
        if self.image_size is None:
            return self.size
        height, width = self.image_size[i].tolist()
        return height, width

    def needs(self) -> frozenset[str]:
        """Names of the optional fields that are set; for ``steps`` the names of its steps' classes.

        "perspective" is added if the warp's matrices need not be affine, "nearest" if its samples may pick
        pixels, "direct" if engines must not make its canvas, and "noise" if boxes are filled with noise.
        ``plain`` adds "antialias=False"; if images are also resampled in other ways, it adds "antialias=False
        beside other resizes, warps or bicubic".
        """
        optional = {field.name for field in fields(self) if field.default is None}
        optional -= {"steps", "plain", "window", "empty"}
        names = frozenset(name for name in optional if getattr(self, name) is not None)
        if self.warp is not None:
            asked = {
                "perspective": self.warp.perspective,
                "nearest": self.warp.nearest is not None,
                "direct": self.warp.direct,
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
