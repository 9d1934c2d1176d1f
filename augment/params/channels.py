"""Units of images of any number of channels, as parameters of a batch hold them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["Channels"]


@dataclass(frozen=True)
class Channels:
    """Units of images of C channels that are not RGB or grey.

    The geometry is that of a batch without a border. Each channel is resampled by itself, and a resampled
    uint8 is rounded after each axis, as Pillow does. The steps are displacements. Then each level x becomes
    ``scale * x + shift``.

    Attributes:
        scale: (C,) float32.
        shift: (C,) float32.
        fill: (C,) float32, level of padding.
    """

    scale: npt.NDArray[np.float32]
    shift: npt.NDArray[np.float32]
    fill: npt.NDArray[np.float32]
