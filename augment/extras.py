"""What parameters may ask for beyond one resampling and one affine map of colour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["Erase"]


@dataclass(frozen=True)
class Erase:
    """A box of the finished image that is overwritten.

    Attributes:
        box: (N, 4) int32, top, left, height, width in the output; height or width 0 for none.
        value: (3,) float32, RGB, in the units of the output.
    """

    box: npt.NDArray[np.int32]
    value: npt.NDArray[np.float32]
