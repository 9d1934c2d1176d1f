"""ObjectCrop: the box of an object, cut out by an affine map, as top-down pose estimation trains on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError
from stoker.types import Size

from ...description import is_finite
from ...state.transform_state import TransformState
from ..base import SizedTransform

Float = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ObjectCrop(SizedTransform):
    """Cut out the box of an object with some of what is around it, scaled and rotated at random.

    The box is extended to the aspect ratio of ``size`` around its centre, and by ``padding``, and fills the
    output. The image is resampled once. The defaults draw nothing, as for validation; training has
    ``ObjectCrop((256, 192), scale=0.35, degrees=40)`` (Xiao et al., "Simple baselines for human pose
    estimation and tracking", ECCV 2018; MMPose's TopdownAffine). Centres of pixels are at 0.5, as in "The
    devil is in the details" (Huang et al., CVPR 2020), where Simple Baselines shifts by half a pixel.

    ``dataset.select(each="object")`` makes a sample of each object. An image with several objects is cut out
    around all of them, and one without an object is shown whole. What lies outside of the image is ``fill``.

    Args:
        size: (height, width) in pixels, or one number for a square.
        padding: Factor by which the extended box is enlarged.
        scale: Deviation of a further factor, normally distributed around 1 and cut off at this distance.
        degrees: Deviation of the rotation, normally distributed around 0 and cut off at twice this number.
        p: Probability of a rotation.
        fill: Level 0..255 or three of them (RGB) outside of the image; None leaves the choice to other
            transforms (black).
    """

    padding: float = 1.25
    scale: float = 0.0
    degrees: float = 0.0
    p: float = 0.6
    fill: int | Sequence[int] | None = None

    draws: ClassVar[int] = 5
    warps: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.set_size()
        self.check("padding", is_finite(self.padding) and self.padding > 0, "a number above 0")
        self.check("scale", is_finite(self.scale) and 0 <= self.scale < 1, "a number from 0 to below 1")
        self.check("degrees", is_finite(self.degrees) and 0 <= self.degrees <= 180, "a number from 0 to 180")
        self.check_probability()
        self.set_fill(optional=True)

    @property
    def uses_boxes(self) -> bool:
        """See :class:`Transform`."""
        return True

    @property
    def canvas(self) -> Size:
        """See :class:`Transform`: the whole image in the size of the output, from which nothing is read."""
        return self.output_size(None)

    def params(self, state: TransformState, u: Float) -> None:
        """See :class:`Transform`."""
        if state.parts is not None:
            raise ConfigError(
                "ObjectCrop stands after a transform that makes one image of several samples",
                hint="Leave one of the two out: the objects of all samples would be cut out apart.",
            )
        if state.warp is not None:
            raise ConfigError("ObjectCrop stands after a warp", hint="Rotate by its argument degrees.")
        if state.padding is not None:
            state.padding.refuse("ObjectCrop")
        state.use_fill(self.fill)
        image = state.size[::-1].astype(np.float64)  # width and height, as points have x first
        start, stop = _extents(state, image)
        output = np.array(self.output_size(None)[::-1], np.float64)[:, None]
        matrix = self._to_image((start + stop) / 2, stop - start, output, u)
        matrix[:, :2] *= (output / image).T[:, :, None]  # pixels of the canvas
        state.resize(np.array(self.output_size(None))[:, None])
        state.distort(matrix, direct=True)

    def _to_image(self, center: Float, extent: Float, output: Float, u: Float) -> Float:
        """(N, 3, 3), from (x, y, 1) in the output to the image; boxes have centres and sizes, (2, N)."""
        unit = np.maximum(extent[0] / output[0], extent[1] / output[1]) * self.padding
        normal = _normal(u[:, :2]), _normal(u[:, 2:4])
        unit = unit * (1 + self.scale * normal[0].clip(-1, 1))
        angle = np.radians(self.degrees) * normal[1].clip(-2, 2) * (u[:, 4] < self.p)
        matrix = np.zeros((len(u), 3, 3))
        matrix[:, 0, 0] = matrix[:, 1, 1] = unit * np.cos(angle)
        matrix[:, 1, 0] = unit * np.sin(angle)
        matrix[:, 0, 1] = -matrix[:, 1, 0]
        matrix[:, 2, 2] = 1
        half = output[:, 0] / 2
        matrix[:, :2, 2] = center.T - matrix[:, :2, 0] * half[0] - matrix[:, :2, 1] * half[1]
        return matrix


def _extents(state: TransformState, image: Float) -> tuple[Float, Float]:
    """Top left and bottom right of what the objects of each image cover, (2, N) x and y; else of all."""
    boxes, owner = state.objects.seen(state.geometry)
    start, stop = np.zeros_like(image), image.copy()
    if len(owner):
        first = np.flatnonzero(np.diff(owner, prepend=-1))
        start[:, owner[first]] = np.minimum.reduceat(boxes[:, :2], first).T
        stop[:, owner[first]] = np.maximum.reduceat(boxes[:, 2:], first).T
    return start, stop


def _normal(u: Float) -> Float:
    """(N,) normally distributed numbers of (N, 2) uniform ones (Box and Muller, 1958)."""
    return np.asarray(np.sqrt(-2 * np.log1p(-u[:, 0])) * np.cos(2 * np.pi * u[:, 1]))
