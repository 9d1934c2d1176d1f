"""Warps of a batch between two transforms: one matrix for each image, and whether it picks pixels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError
from stoker.types import Size

from ..geometry.interpolation import Interpolation
from ..params.optional_params import Warp
from .sample_arrays import filled

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]


@dataclass(kw_only=True)
class WarpState:
    """Geometry of N images that is not along the axes, from the first warp on."""

    size: Int  # (2, N) int64, height and width of the warped images, pixels
    canvas: Int  # (2, N) int64, size of the canvas: the image before it was first warped
    matrix: Float  # (N, 3, 3) float64, from homogeneous (x, y, 1) in the image to (x, y, 1) in the canvas
    only_nearest: Bool  # (N,) bool, whether all warps of the sample so far were nearest
    perspective: bool = False  # Whether ``matrix`` may be other than affine
    # Whether some transform warps by nearest, even if it changes no sample of this batch
    may_pick: bool = False
    # Whether the canvas has less detail than the images show, so that engines must not make it
    direct: bool = False

    @classmethod
    def of(cls, size: Int, matrix: Float, *, perspective: bool, interpolation: str | Enum) -> WarpState:
        """Images of ``size``, (2, N), with their first warp; see :meth:`distort`."""
        may_pick = Interpolation.of(interpolation) == Interpolation.NEAREST
        return cls(
            size=size,
            canvas=size,
            matrix=matrix,
            only_nearest=_changes_nothing(matrix) | may_pick,
            perspective=perspective,
            may_pick=may_pick,
        )

    def take(self, rows: Rows) -> WarpState:
        """The warps of the samples at ``rows``, (M,)."""
        size, canvas = self.size[:, rows], self.canvas[:, rows]
        matrix, only_nearest = self.matrix[rows], self.only_nearest[rows]
        return replace(self, size=size, canvas=canvas, matrix=matrix, only_nearest=only_nearest)

    def put(self, rows: Rows, taken: WarpState) -> None:
        """Give the samples at ``rows`` the warps ``taken``; ConfigError for another canvas."""
        if np.any(self.canvas[:, rows] != taken.canvas):
            raise ConfigError(
                "some images are warped in another size than the others have",
                hint="Put what changes the size before or after the RandomApply or RandomChoice.",
            )
        self.size = filled(self.size, rows, taken.size)
        self.only_nearest = filled(self.only_nearest, rows, taken.only_nearest)
        self.matrix = self.matrix.copy()
        self.matrix[rows] = taken.matrix
        self.perspective |= taken.perspective
        self.may_pick |= taken.may_pick
        self.direct |= taken.direct

    def distort(self, matrix: Float, *, perspective: bool, interpolation: str | Enum) -> None:
        """See :meth:`stoker.augment.state.transform_state.TransformState.distort`."""
        may_pick = Interpolation.of(interpolation) == Interpolation.NEAREST
        self.may_pick |= may_pick
        self.perspective |= perspective
        self._compose(matrix, _changes_nothing(matrix) | may_pick)

    def crop(self, origin: Int, size: Int) -> None:
        """Cut out ``size`` pixels at ``origin``, both (2, N) or (2, 1); ConfigError outside of the image."""
        if np.any(origin < 0) or np.any(origin + size > self.size):
            raise ConfigError("a crop pads after a warp", hint="Move the padding before the warp.")
        self._compose(_affine(1, 1, origin[1], origin[0]))
        self.size = np.broadcast_to(size, self.size.shape)

    def resize(self, size: Int, interpolation: Interpolation) -> None:
        """Resample to ``size`` pixels, (2, N) or (2, 1); all interpolations but nearest are bilinear here."""
        scale = self.size / size
        self._compose(_affine(scale[1], scale[0], 0, 0), interpolation == Interpolation.NEAREST)
        self.size = np.broadcast_to(size, self.size.shape)

    def mirror(self, where: Bool, axis: int) -> None:
        """Mirror the images at which ``where``, (N,) bool, is true; ``axis`` is 0 vertical, 1 horizontal."""
        sign, shift = np.where(where, -1, 1), np.where(where, self.size[axis], 0)
        self._compose(_affine(1, sign, 0, shift) if axis == 0 else _affine(sign, 1, shift, 0))

    def show_around_center(self, size: Int) -> None:
        """Enlarge or cut the images around the same centre, to ``size``, (2, N)."""
        margin = (self.size - size) / 2
        self._compose(_affine(1, 1, margin[1], margin[0]))
        self.size = size

    def params(self, canvas: Size) -> Warp:
        """The warps as parameters, where all canvases have the size ``canvas``."""
        nearest = self.only_nearest if self.may_pick else None
        return Warp(self.matrix, canvas, self.perspective, nearest, self.direct)

    def _compose(self, matrix: Float, nearest: Bool | bool = True) -> None:
        """Compose ``matrix``, (N, 3, 3) or (1, 3, 3), onto the warps; ``nearest`` says which pick pixels."""
        self.matrix = self.matrix @ matrix
        self.only_nearest = np.logical_and(self.only_nearest, nearest)


def _changes_nothing(matrix: Float) -> Bool:
    return np.asarray(np.all(matrix == np.eye(3), axis=(1, 2)))


def _affine(scale_x: Any, scale_y: Any, shift_x: Any, shift_y: Any) -> Float:
    """(N, 3, 3) matrices from numbers and (N,) arrays; (1, 3, 3) from numbers alone."""
    n = np.broadcast(scale_x, scale_y, shift_x, shift_y, [0]).size
    matrix = np.zeros((n, 3, 3))
    matrix[:, 0, 0], matrix[:, 1, 1], matrix[:, 2, 2] = scale_x, scale_y, 1
    matrix[:, 0, 2], matrix[:, 1, 2] = shift_x, shift_y
    return matrix
