"""Interpolation of what is resized: names as torchvision has them, filters as Pillow has them.

All but nearest antialias: where an image shrinks, the filter is as many times wider, as torchvision's
``antialias=True`` and Pillow's ``Image.resize`` have it. Rows are resampled first, then columns, and each
of the two rounds and clips to uint8. (Since Pillow 13 its own order depends on the sizes, which filters
with negative weights show by a few levels.)
"""

from __future__ import annotations

from enum import Enum, IntEnum

import numpy as np

__all__ = ["SUPPORT", "WARPING", "Interpolation"]


class Interpolation(IntEnum):
    """Filters of a resize, with the numbers that parameters and engines know them by."""

    NEAREST = 0
    """The pixel that the centre of the output's pixel falls into, ``floor(start + (i + 0.5) * scale)``: as in
    Pillow, in torchvision's "nearest" on Pillow's images, and in its "nearest-exact". Its "nearest" on
    tensors is ``floor(i * scale)``."""
    BILINEAR = 1
    """A triangle."""
    BICUBIC = 2
    """Keys' cubic convolution with a = -0.5, as in Pillow, and in torch where it antialiases."""
    LANCZOS = 3
    """sinc(x) * sinc(x / 3); torchvision has it for Pillow's images alone."""

    @classmethod
    def of(cls, given: object) -> Interpolation:
        """By name, "bicubic" and so on, or torchvision's InterpolationMode; KeyError for what is none."""
        if isinstance(given, cls):
            return given
        name = given.value if isinstance(given, Enum) else given
        names = {one.name.lower(): one for one in cls} | {"nearest-exact": cls.NEAREST}
        return names[str(name)]


SUPPORT = np.array([0.0, 1.0, 2.0, 3.0])
"""How far each filter reaches to both sides: pixels, or output pixels where those are larger."""

WARPING = (Interpolation.NEAREST, Interpolation.BILINEAR)
"""Those of what is turned or sheared; see :class:`stoker.augment.params.optional_params.Warp`."""
