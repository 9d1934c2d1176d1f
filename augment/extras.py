"""What parameters may ask for beyond one resampling and one affine map of colour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["Erase", "Warp"]


@dataclass(frozen=True)
class Warp:
    """A projective resampling of the image that ``crop``, ``region``, ``dest`` and ``flip`` make.

    That image, the canvas, then has a size of its own, and ``dest`` and ``flip`` refer to it. The
    pixel of the output in column c and row r shows the canvas at (x / w, y / w), where (x, y, w) is
    ``matrix @ (c + 0.5, r + 0.5, 1)``, interpolated bilinearly between the centres of pixels, which
    lie at (c + 0.5, r + 0.5) too; what lies outside of the canvas, or has w <= 0, is ``fill``. The
    result is rounded to uint8, half up.

    Attributes:
        matrix: (N, 3, 3) float64.
        canvas: Height and width of the canvas, pixels.
    """

    matrix: npt.NDArray[np.float64]
    canvas: tuple[int, int]


@dataclass(frozen=True)
class Erase:
    """A box of the finished image that is overwritten.

    Attributes:
        box: (N, 4) int32, top, left, height, width in the output; height or width 0 for none.
        value: (3,) float32, RGB, in the units of the output.
    """

    box: npt.NDArray[np.int32]
    value: npt.NDArray[np.float32]
