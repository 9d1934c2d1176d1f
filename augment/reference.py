"""Reference execution of parameters in NumPy and Pillow, one sample at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from stoker.types import DType, Layout, Size

from .params import WHOLE_SHARE, Channels, Composition, ImageParams
from .resampling import Interpolation, apply_matrix, interpolate, pick, resample
from .steps import Displace, convert

Array = npt.NDArray[Any]
Float = npt.NDArray[np.float64]
Pixels = npt.NDArray[np.uint8]


def execute(
    params: ImageParams, i: int, pixels: Array, dtype: DType = "float32", layout: Layout = "NCHW"
) -> Array:
    """Execute the parameters of sample ``i`` on its source, (H, W, C)."""
    if params.channels is None:
        return finish(params, i, render(params, i, pixels), dtype, layout)
    values = _in_units(_levels(params, params.channels, i, pixels), params.channels)
    return _finished(params, i, values, dtype, layout)


def finish(params: ImageParams, i: int, rgb: Pixels, dtype: DType, layout: Layout) -> Array:
    """Execute what follows the geometry of sample ``i`` on its pixels, (H, W, 3)."""
    for step in params.steps or ():
        rgb = step.run(i, rgb)
    color = params.color[i].astype(np.float64)
    values = np.asarray(rgb @ color[:, :3].T + color[:, 3])
    if params.mean_matrix is not None:
        values += params.mean_matrix[i].astype(np.float64) @ rgb.mean(axis=(0, 1))
    return _finished(params, i, values, dtype, layout)


def _finished(params: ImageParams, i: int, values: Float, dtype: DType, layout: Layout) -> Array:
    """Subtract the mean image, erase boxes, and convert."""
    mean = params.mean_image
    if mean is not None and mean.where[i]:
        of_mean = replace(params, crop=mean.crop, region=mean.region)
        levels = _upright(of_mean, i, mean.levels, mean.units.fill.astype(np.float64), params.size)
        values -= _in_units(levels, mean.units)
    for erase in params.erase or ():
        top, left, height, width = erase.box[i].tolist()
        values[top : top + height, left : left + width] = erase.content(i, values.shape[1])
    image = convert(values, dtype)
    if layout == "NCHW":
        return np.ascontiguousarray(image.transpose(2, 0, 1))
    return np.pad(image, ((0, 0), (0, 0), (0, 1))) if layout == "NHWC4" else image


def _levels(params: ImageParams, channels: Channels, i: int, pixels: Array) -> Float:
    """The levels of a source that is not RGB or grey, (H, W, C), after all geometry."""
    warp, fill = params.warp, channels.fill.astype(np.float64)
    if params.empty is not None and params.empty[i]:
        return np.tile(fill, (*params.size, 1))
    if warp is None or not warp.applies(i, params.size):
        levels = _upright(params, i, pixels, fill, params.size)
    elif warp.picks(i):
        levels = pick(_upright(params, i, pixels, fill, warp.canvas), warp.matrix[i], params.size, fill)
    else:
        window = _window(params.region[i])
        levels = resample(pixels, params.to_source()[i], params.size, fill, window).astype(np.float64)
    for step in params.steps or ():
        if isinstance(step, Displace):
            moved = step.move(i, levels, fill)
            levels = np.floor(moved + 0.5) if pixels.dtype == np.uint8 else moved
    return levels


def _in_units(levels: Float, channels: Channels) -> Float:
    return np.asarray(levels * channels.scale.astype(np.float64) + channels.shift.astype(np.float64))


def render(params: ImageParams, i: int, pixels: Pixels) -> Pixels:
    """The image after all geometry and before colour: (H, W, 3) uint8."""
    warp = params.warp
    if warp is None or not warp.applies(i, params.size_of(i)):
        return _bordered(params, i, pixels, params.size_of(i))
    fill: tuple[int, int, int] = tuple(params.fill.tolist())
    if warp.picks(i) or params.border is not None:
        execute = pick if warp.picks(i) else resample
        return execute(_bordered(params, i, pixels, warp.canvas), warp.matrix[i], params.size, fill)
    return resample(pixels, params.to_source()[i], params.size, fill, _window(params.region[i]))


def _bordered(params: ImageParams, i: int, pixels: Pixels, size: Size) -> Pixels:
    """An image that is not warped, or a canvas, of ``size``; where there is a border, from its tile."""
    border = params.border
    if border is None:
        return _upright(params, i, pixels, params.fill, size)
    height, width = border.size[i].tolist()
    tile = _upright(params, i, pixels, params.fill, (height, width))
    return tile[np.ix_(border.rows[i], border.columns[i])]


def _upright(params: ImageParams, i: int, pixels: Array, fill: Array, size: Size) -> Array:
    """The image of ``size`` after the geometry along the axes, which ``dest`` and ``flip`` refer to."""
    # It has the dtype of ``fill``, (C,).
    top, left, height, width = params.dest[i].tolist()
    image = np.tile(fill, (*size, 1))
    for channel in range(len(fill)):
        resized = _resize(params, i, np.ascontiguousarray(pixels[:, :, channel]))
        image[top : top + height, left : left + width, channel] = resized
    horizontal, vertical = params.flip[i].tolist()
    return image[:: -1 if vertical else 1, :: -1 if horizontal else 1]


def _resize(params: ImageParams, i: int, pixels: Array) -> Array:
    """The region of one channel, resampled to the size of ``dest``."""
    interpolation = Interpolation.BILINEAR
    if params.interpolation is not None:
        interpolation = Interpolation(params.interpolation[i])
    top, left, height, width = params.crop[i].tolist()
    y0, x0, y1, x1 = params.region[i].tolist()
    rows, columns = params.dest[i, 2:].tolist()
    if interpolation == Interpolation.NEAREST:
        chosen = _nearest(y0, y1, rows, top, height), _nearest(x0, x1, columns, left, width)
        return pixels[np.ix_(*chosen)]
    if interpolation in (Interpolation.PLAIN_BILINEAR, Interpolation.PLAIN_BICUBIC):
        cubic = interpolation == Interpolation.PLAIN_BICUBIC
        window = pixels[top : top + height, left : left + width]
        resized = interpolate(window, 1, (x0 - left, x1 - left), columns, cubic=cubic)
        return interpolate(resized, 0, (y0 - top, y1 - top), rows, cubic=cubic)
    part = np.ascontiguousarray(pixels[top : top + height, left : left + width])
    source = Image.fromarray(part if part.dtype == np.uint8 else part.astype(np.float32))
    how = Image.Resampling[interpolation.name]
    # One axis at a time: both passes round, and their order differs between versions of Pillow.
    narrow = source.resize((columns, height), how, (x0 - left, 0, x1 - left, height))
    return np.asarray(narrow.resize((columns, rows), how, (0, y0 - top, columns, y1 - top)))


def _nearest(start: float, stop: float, count: int, first: int, size: int) -> npt.NDArray[np.intp]:
    """Pixels, (count,), into which centres fall; Pillow adds up increments, whose errors matter at edges."""
    centers = start + (np.arange(count) + 0.5) * ((stop - start) / count)
    return np.asarray(np.floor(centers).clip(first, first + size - 1), np.intp)


def _window(region: npt.NDArray[np.float64]) -> tuple[int, int, int, int]:
    """The whole pixels that a region, (4,), touches."""
    top, left, bottom, right = region.tolist()
    return math.floor(top), math.floor(left), math.ceil(bottom), math.ceil(right)


def compose(
    params: ImageParams,
    image: int,
    pixels: Mapping[int, Pixels],
    dtype: DType = "float32",
    layout: Layout = "NCHW",
) -> npt.NDArray[Any]:
    """Execute the parameters of an image of several samples, whose ``pixels`` are (H, W, 3) uint8."""
    composition = _composition(params)
    parts = np.flatnonzero(composition.image == image)
    canvas = np.tile(params.fill, (*params.size, 1))
    for layer in np.unique(composition.layer[parts]).tolist():
        of_layer = parts[composition.layer[parts] == layer]
        image_of_layer = np.tile(params.fill, (*params.size, 1))
        for part in of_layer[composition.shown[of_layer]].tolist():
            where = covered(params, part)
            image_of_layer[where] = render(params, part, pixels[part])[where]
        canvas = image_of_layer if layer == 0 else _merged(params, int(of_layer[0]), canvas, image_of_layer)
    return finish(params, int(parts[0]), canvas, dtype, layout)


def shown_parts(params: ImageParams, image: int) -> list[int]:
    """The parts of an image whose samples are read."""
    composition = _composition(params)
    return list(map(int, np.flatnonzero((composition.image == image) & composition.shown)))


def _composition(params: ImageParams) -> Composition:
    if params.composition is None:
        raise AssertionError("each image shows one sample")
    return params.composition


def covered(params: ImageParams, part: int) -> npt.NDArray[np.bool_]:
    """(H, W) bool, pixels at which a part is seen."""
    top, left, height, width = params.dest[part].tolist()
    rows, columns = params.upright_size().tolist()
    horizontal, vertical = params.flip[part].tolist()
    left = columns - left - width if horizontal else left
    top = rows - top - height if vertical else top
    where = np.zeros(params.size, np.bool_)
    if params.warp is None or not params.warp.applies(part, params.size):
        where[top : top + height, left : left + width] = True
        return where
    y, x = np.indices(params.size) + 0.5
    matrix = params.warp.matrix[part]
    ahead = x * matrix[2, 0] + y * matrix[2, 1] + matrix[2, 2] > 0
    points = apply_matrix(matrix[None], np.stack((x, y), axis=-1).reshape(1, -1, 2))[0]
    u, v = points.T.reshape(2, *params.size)
    return np.asarray(ahead & (u >= left) & (u < left + width) & (v >= top) & (v < top + height))


def _merged(params: ImageParams, part: int, below: Pixels, layer: Pixels) -> Pixels:
    """A canvas with a layer, whose first part is ``part``, on it."""
    composition = _composition(params)
    mask = int(composition.mask[part])
    if mask >= 0:
        chosen = composition.masks.reshape(-1, *params.size)[mask]
        return np.where(chosen[..., None] != 0, layer, below)
    share = int(composition.share[part])
    mixed = share * layer.astype(np.int64) + (WHOLE_SHARE - share) * below.astype(np.int64)
    return ((mixed + WHOLE_SHARE // 2) >> 16).astype(np.uint8)
