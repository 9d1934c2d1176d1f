"""Parameters of a batch: what the transforms decided, and all that an engine needs to know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["ImageParams"]


@dataclass(frozen=True)
class ImageParams:
    """How N images become N arrays of one size.

    For each sample, in this order: ``crop`` is cut out of the oriented source; ``region`` of the
    source is resampled (Pillow's antialiased bilinear filter) onto the rectangle ``dest`` of the
    output, reading no pixel outside ``crop`` and rounding to uint8; what lies outside ``dest`` is
    ``fill``; the output is mirrored as ``flip`` says; then each pixel becomes
    ``color[:, :3] @ rgb + color[:, 3]`` with rgb in 0..255.

    Attributes:
        size: Height and width of the output, pixels, the same for all samples.
        crop: (N, 4) int32, top, left, height, width in pixels of the oriented source; within it.
        region: (N, 4) float64, top, left, bottom, right in the same coordinates (edges of pixels,
            as Pillow's ``resize(box=)``); within ``crop``.
        dest: (N, 4) int32, top, left, height, width in the output.
        flip: (N, 2) bool, horizontally, vertically.
        color: (N, 3, 4) float32; contains dtype scaling and normalisation.
        fill: (3,) uint8, RGB.
    """

    size: tuple[int, int]
    crop: npt.NDArray[np.int32]
    region: npt.NDArray[np.float64]
    dest: npt.NDArray[np.int32]
    flip: npt.NDArray[np.bool_]
    color: npt.NDArray[np.float32]
    fill: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.crop)
