"""The native engine for images that are not RGB or grey; C++ decodes PNG and WebP, Python other codecs."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker.augment.params import Channels, ImageParams
from stoker.augment.resampling import Interpolation
from stoker.augment.steps import Displace, convert
from stoker.formats.dataset.index import Samples

from .native import subtract_mean
from .reference import ReferenceEngine

Pixels = npt.NDArray[Any]
Levels = npt.NDArray[np.float32]


class ChannelEngine(ReferenceEngine):
    """Executes image batches with any number of channels on a pool of threads.

    Its threads work side by side, because decoders and resampling run without the interpreter's lock.
    """

    name = "native"

    def _decode(
        self, data: Any, samples: Samples, i: int, columns: Sequence[ImageParams]
    ) -> npt.NDArray[Any]:
        """See :class:`ReferenceEngine`; Pillow decodes the images that C++ cannot decode."""
        if samples.orientation[i] == 1:
            codec, alpha = int(samples.codec[i]), self._image_format.color == "rgba"
            whole = np.array((0, 0, samples.height[i], samples.width[i]), np.int32)
            window = _window(columns, i, len(samples)) if columns else whole
            with contextlib.suppress(ValueError):
                pixels = _native.decode_stored(codec, data, alpha, self._settings.max_pixels, window)
                if pixels is not None and pixels.shape[:2] == (samples.height[i], samples.width[i]):
                    return pixels
        return super()._decode(data, samples, i, columns)

    def _make(self, params: ImageParams, i: int, pixels: Pixels, out: Pixels) -> None:
        channels = params.channels
        assert channels is not None, "the parameters are not for RGB images"
        pixels, image_format = np.ascontiguousarray(pixels), self._image_format
        planar, dtype = image_format.layout == "NCHW", image_format.dtype
        levels = _levels(params, i, pixels, channels.fill)
        if levels is None:
            _resample(params, i, pixels, out, planar=planar, dtype=dtype, units=channels)
        else:
            _store(levels, out, planar=planar, dtype=dtype, units=channels)
        subtract_mean(params, i, out, image_format.layout)
        seen = out.transpose(1, 2, 0) if planar else out
        for erase in params.erase or ():
            top, left, height, width = erase.box[i].tolist()
            content = erase.content(i, params.size[1]).astype(np.float64)
            seen[top : top + height, left : left + width] = convert(content, dtype)


def _window(columns: Sequence[ImageParams], i: int, samples: int) -> npt.NDArray[np.int32]:
    """Return (4,), the top, left, bottom and right of the part of sample ``i`` that its images show."""
    # Warps round the edges, so the part is a pixel larger on each side.
    crops = np.concatenate([one.crop[i::samples] for one in columns])
    return np.hstack((crops[:, :2].min(axis=0) - 1, (crops[:, :2] + crops[:, 2:]).max(axis=0) + 1))


def _levels(params: ImageParams, i: int, pixels: Pixels, fill: Levels) -> Levels | None:
    """The levels of image ``i``, (H, W, C), after a warp or displacements; None where it has neither."""
    warp, moves = params.warp, [step for step in params.steps or () if isinstance(step, Displace)]
    empty = params.empty is not None and bool(params.empty[i])
    warped = warp is not None and warp.applies(i, params.size) and not empty
    if not (warped or empty or any(step.where[i] for step in moves)):
        return None
    levels = np.empty((*params.size, pixels.shape[2]), np.float32)
    if empty:
        levels[:] = fill
    elif warp is not None and warped:
        _warp(params, i, pixels, levels, fill)
    else:
        _resample(params, i, pixels, levels, units=_levels_as_they_are(fill))
    for step in moves:
        if step.where[i]:
            _native.displace_channels(
                levels,
                key=int(step.keys[i]),
                alpha=np.array(step.alpha, np.float64),
                sigma=np.array(step.sigma, np.float64),
                nearest=step.nearest,
                rounds=pixels.dtype == np.uint8,
                fill=fill,
            )
    return levels


def _warp(params: ImageParams, i: int, pixels: Pixels, levels: Levels, fill: Levels) -> None:
    """Write the warped image into ``levels``, resampled from the source or picked from a canvas."""
    warp = params.warp
    assert warp is not None, "the image is warped"
    picks = warp.picks(i)
    if picks:
        canvas = np.empty((*warp.canvas, pixels.shape[2]), np.float32)
        _resample(params, i, pixels, canvas, units=_levels_as_they_are(fill))
        pixels, matrix, window = canvas, warp.matrix[i], np.array((0, 0, *warp.canvas))
    else:
        region = params.region[i]
        matrix, window = params.to_source()[i], np.hstack((np.floor(region[:2]), np.ceil(region[2:])))
        window = window.clip(0, (*pixels.shape[:2], *pixels.shape[:2]))  # against rounding errors
    _native.warp_channels(
        pixels,
        levels,
        matrix=np.ascontiguousarray(matrix),
        window=window.astype(np.int32),
        picks=picks,
        fill=fill,
    )


def _levels_as_they_are(fill: Levels) -> Channels:
    return Channels(np.ones_like(fill), np.zeros_like(fill), fill)


def _resample(
    params: ImageParams,
    i: int,
    pixels: Pixels,
    out: Pixels,
    *,
    units: Channels,
    planar: bool = False,
    dtype: str = "float32",
) -> None:
    """Write the geometry along the axes of image ``i``, in these units, into ``out``."""
    chosen = params.interpolation
    _native.resample_channels(
        pixels,
        out,
        dtype=dtype,
        planar=planar,
        crop=params.crop[i],
        region=params.region[i],
        dest=params.dest[i],
        flip=params.flip[i],
        interpolation=int(Interpolation.BILINEAR if chosen is None else chosen[i]),
        scale=units.scale,
        shift=units.shift,
        fill=units.fill,
    )


def _store(levels: Levels, out: Pixels, *, planar: bool, dtype: str, units: Channels) -> None:
    """Write finished levels, (H, W, C), in these units into ``out``."""
    height, width = levels.shape[:2]
    whole = np.array((0, 0, height, width), np.int32)
    _native.resample_channels(
        levels,
        out,
        dtype=dtype,
        planar=planar,
        crop=whole,
        region=whole.astype(np.float64),
        dest=whole,
        flip=np.zeros(2, np.bool_),
        interpolation=int(Interpolation.NEAREST),
        scale=units.scale,
        shift=units.shift,
        fill=units.fill,
    )


make_engine = ChannelEngine
