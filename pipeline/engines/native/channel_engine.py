"""The native engine for images that are not RGB or grey: decoded in Python, resampled in C++."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stoker import _native
from stoker.augment.geometry.interpolation import Interpolation
from stoker.augment.params.channels import Channels

from ..reference import ReferenceEngine
from .mean_image import subtract_mean

if TYPE_CHECKING:
    import numpy.typing as npt

    from stoker.augment.params.image_params import ImageParams

__all__ = ["ChannelEngine"]


class ChannelEngine(ReferenceEngine):
    """Executes batches of images of any number of channels on a pool of threads.

    It takes the arguments of :class:`~stoker.pipeline.engines.reference.ReferenceEngine`. Its threads work
    side by side, because decoders and resampling run without the interpreter's lock.
    """

    name = "native"

    def _make(self, params: ImageParams, i: int, pixels: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
        channels, chosen = getattr(params, "channels", None), params.interpolation
        if not isinstance(channels, Channels):
            raise AssertionError("the parameters are those of RGB images")
        _native.resample_channels(
            np.ascontiguousarray(pixels),
            out,
            dtype=self._image_format.dtype,
            planar=self._image_format.layout == "NCHW",
            crop=params.crop[i],
            region=params.region[i],
            dest=params.dest[i],
            flip=params.flip[i],
            interpolation=int(Interpolation.BILINEAR if chosen is None else chosen[i]),
            scale=channels.scale,
            shift=channels.shift,
            fill=channels.fill,
        )
        subtract_mean(params, i, out, self._image_format.layout)
