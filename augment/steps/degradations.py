"""Steps that degrade an image as cameras and files do: noise, and the loss of JPEG."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from ..formulas.noise import normal_noise, quantiles
from .base import Step, to_uint8

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class AddNoise(Step):
    """Normal noise for each pixel and channel: x becomes ``x + deviation * normal + mean``, rounded half up.

    :mod:`stoker.augment.formulas.noise` says how the noise follows from its key. torchvision truncates the
    noise to whole levels before it adds them, which makes it a little smaller.

    Attributes:
        keys: (N,) uint64, of :func:`stoker.augment.formulas.noise.normal_noise`.
        mean: (N,) float32, in levels of 0..255.
        deviation: (N,) float32, likewise, from 0.
    """

    operation: ClassVar[str] = "add_noise"

    keys: npt.NDArray[np.uint64]
    mean: npt.NDArray[np.float32]
    deviation: npt.NDArray[np.float32]

    @property
    def quantiles(self) -> npt.NDArray[np.float32]:
        """(65536,) float32, from which C++ draws the noise."""
        return quantiles()

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        """See :class:`Step`."""
        height, width = pixels.shape[:2]
        normal = normal_noise(int(self.keys[i]), (0, 0, height, width), width).astype(np.float64)
        return to_uint8(pixels + normal * float(self.deviation[i]) + float(self.mean[i]))


@dataclass(frozen=True)
class Compress(Step):
    """The image, encoded as a baseline JPEG with 4:2:0 subsampling and decoded, as by torchvision's ``jpeg``.

    It uses libjpeg's tables of quality, its exact integer transforms, and its smooth upsampling.

    Attributes:
        quality: (N,) uint8, 1 to 100.
    """

    operation: ClassVar[str] = "compress"

    quality: npt.NDArray[np.uint8]

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        """See :class:`Step`."""
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, "JPEG", quality=int(self.quality[i]), subsampling="4:2:0")
        stream.seek(0)
        with JpegImageFile(stream) as decoded:
            return np.asarray(decoded)
