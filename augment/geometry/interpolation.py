"""Interpolation of resized images: torchvision's names, Pillow's filters.

All but nearest and the plain ones antialias: if an image shrinks n times, the filter becomes n times wider,
as in torchvision with ``antialias=True`` and in Pillow's ``Image.resize``. Rows are resampled first, then
columns, and each of the two passes rounds and clips to uint8. (Since Pillow 13 its own order depends on the
sizes; filters with negative weights then differ by a few levels.)
"""

from __future__ import annotations

from enum import Enum, IntEnum

import numpy as np


class Interpolation(IntEnum):
    """Filters of a resize, with their numbers in parameters and engines."""

    NEAREST = 0
    """The pixel into which the output pixel's centre falls, ``floor(start + (i + 0.5) * scale)``, as in
    Pillow, in torchvision's "nearest" on Pillow's images, and in its "nearest-exact". Its "nearest" on
    tensors is ``floor(i * scale)``."""
    BILINEAR = 1
    """A triangle."""
    BICUBIC = 2
    """Keys' cubic convolution with a = -0.5, as in Pillow, and in torch where it antialiases."""
    LANCZOS = 3
    """sinc(x) * sinc(x / 3); torchvision has it only for Pillow's images."""

    PLAIN_BILINEAR = 4
    """Bilinear with ``antialias=False``: the two nearest pixels of each axis, however much an image shrinks.
    At the border the last pixel counts for those beyond it."""
    PLAIN_BICUBIC = 5
    """The same with the four nearest pixels, by Keys' cubic convolution with a = -0.75, as in torch."""

    @property
    def plain(self) -> Interpolation:
        """The same without antialiasing; KeyError where there is none."""
        return Interpolation[f"PLAIN_{self.name}"]

    @classmethod
    def of(cls, given: object) -> Interpolation:
        """The filter of a name, such as "bicubic", or of torchvision's InterpolationMode; or KeyError."""
        if isinstance(given, cls):
            return given
        name = given.value if isinstance(given, Enum) else given
        names = {one.name.lower(): one for one in NAMED} | {"nearest-exact": cls.NEAREST}
        return names[str(name)]


NAMED = (Interpolation.NEAREST, Interpolation.BILINEAR, Interpolation.BICUBIC, Interpolation.LANCZOS)
"""Interpolations that a transform's argument names."""

SUPPORT = np.array([0.0, 1.0, 2.0, 3.0, 1.0, 2.0])
"""How far each filter reaches to both sides: pixels, or output pixels where those are larger."""

WARPING = (Interpolation.NEAREST, Interpolation.BILINEAR)
"""Interpolations of warps; see :class:`stoker.augment.params.optional_params.Warp`."""
