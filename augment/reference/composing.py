"""Slow execution of images of several samples, in NumPy; tests compare engines with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.types import DType, Layout

from ..formulas.resample import apply_matrix
from ..params.composition import WHOLE_SHARE, Composition
from ..params.image_params import ImageParams
from .reference import finish, render

Pixels = npt.NDArray[np.uint8]


def compose(
    params: ImageParams,
    image: int,
    pixels: Mapping[int, Pixels],
    dtype: DType = "float32",
    layout: Layout = "NCHW",
) -> npt.NDArray[Any]:
    """Execute the parameters of an image of several samples."""
    # pixels (H, W, 3) uint8
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
    parts: list[int] = np.flatnonzero((composition.image == image) & composition.shown).tolist()
    return parts


def _composition(params: ImageParams) -> Composition:
    if params.composition is None:
        raise AssertionError("the parameters are those of images of one sample each")
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
