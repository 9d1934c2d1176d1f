"""Warps of a batch while one transform follows another: one matrix, and whether pixels are picked by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stoker.errors import ConfigError

from ..geometry.interpolation import Interpolation
from ..params.optional_params import Warp

if TYPE_CHECKING:
    from enum import Enum

    import numpy.typing as npt

    from ..transforms.base import Size

    Int = npt.NDArray[np.int64]
    Float = npt.NDArray[np.float64]
    Rows = npt.NDArray[np.int64]

__all__ = ["WarpState"]

_UNCHANGED = np.eye(3)


@dataclass(kw_only=True)
class WarpState:
    """Geometry of N images that is not along the axes, from the first warp on.

    Attributes:
        size: (2, N) int64, height and width that the images have by now, pixels.
        warp: (N, 3, 3) float64, from homogeneous (x, y, 1) in the image to (x, y, 1) in the canvas, the
            image as it was when it was first warped; edges of pixels are integers. None before that.
        canvas: (2, N) int64, size of the canvas.
        perspective: Whether ``warp`` may be other than affine.
        nearest: (N,) bool, whether all that has changed a sample since picks pixels. None before that.
        picks: Whether anything does, be it of no sample of this batch.
    """

    size: Int
    warp: Float | None = None
    canvas: Int | None = None
    perspective: bool = False
    nearest: npt.NDArray[np.bool_] | None = None
    picks: bool = False

    def distort(
        self, matrix: Float, *, perspective: bool = False, interpolation: str | Enum = "bilinear"
    ) -> None:
        """Warp: ``matrix``, (N, 3, 3), maps (x, y, 1) after this step to (x, y, 1) before it.

        Args:
            matrix: Where it is the identity, exactly, this step changes nothing.
            perspective: Whether its last row may differ from (0, 0, 1).
            interpolation: "nearest", if that is to be the sample's where all steps that change it say so;
                or "bilinear".
        """
        self.perspective |= perspective
        picks = Interpolation.of(interpolation) == Interpolation.NEAREST
        self.picks |= picks
        nearest = np.all(matrix == _UNCHANGED, axis=(1, 2)) | picks
        if self.warp is None:
            self.warp, self.canvas, self.nearest = matrix, self.size, nearest
        else:
            self.map_warped(matrix, nearest)

    def map_warped(self, matrix: Float, picks: npt.NDArray[np.bool_] | bool = True) -> None:
        """Compose ``matrix``, (N, 3, 3) or (1, 3, 3), onto the warp; ``picks`` says which samples pick on."""
        self.warp = self.warp @ matrix  # type: ignore[operator]  # there is a warp
        self.nearest = np.logical_and(self.nearest, picks)  # type: ignore[arg-type]  # likewise

    def close_warp(self, canvas: Size) -> Warp:
        """As parameters have it, where there is one, and canvases all are ``canvas``."""
        nearest = self.nearest if self.picks else None
        return Warp(self.warp, canvas, self.perspective, nearest)  # type: ignore[arg-type]  # there is one

    def put_warp(self, rows: Rows, taken: WarpState) -> None:
        """The part of :meth:`stoker.augment.state.transform_state.TransformState.put` that concerns warps."""
        if taken.warp is None:
            return
        if self.warp is None:
            self.distort(np.tile(_UNCHANGED, (self.size.shape[1], 1, 1)))
        self.warp, self.nearest = np.array(self.warp), np.array(self.nearest)
        self.warp[rows], self.nearest[rows] = taken.warp, taken.nearest
        self.perspective |= taken.perspective
        self.picks |= taken.picks
        if np.any(self.canvas[:, rows] != taken.canvas):  # type: ignore[index]  # as there is a warp
            raise ConfigError("some images are warped after a resize that the others have not")
