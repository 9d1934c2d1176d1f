"""The parameters of a batch, from its state after the last transform."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from stoker.types import Size

from ..geometry.interpolation import Interpolation
from ..params.composition import WHOLE_SHARE, Composition, Parts
from ..params.image_params import ImageParams
from ..params.optional_params import Channels, Erase, MeanImage, Noise
from .transform_state import TransformState


def finished_params(
    state: TransformState,
    size: Size,
    image_size: npt.NDArray[np.int32] | None,
    canvas_size: Size | None,
    erase_values: Sequence[npt.NDArray[np.float64]],
) -> ImageParams:
    """The state of a batch after its last transform, in the form that engines take."""
    # image_size (N, 2), erase_values (2, 3)
    geometry, objects = state.geometry, state.objects
    warp = None if state.warp is None or canvas_size is None else state.warp.params(canvas_size)
    border = state.close_padding(size if warp is None else warp.canvas)
    canvas = geometry.size if state.warp is None or border else state.warp.canvas
    dest_start, dest_stop = geometry.dest(canvas)
    empty = np.any(dest_stop <= dest_start, axis=0)
    if empty.any():
        state.blank(empty)
        dest_start, dest_stop = geometry.dest(canvas)
    dest_size = dest_stop - dest_start
    start, stop = geometry.reach(dest_size)
    color, mean_matrix = state.color.parts()
    return ImageParams(
        size=size,
        crop=_rows(start, stop - start, np.int32),
        region=_rows(geometry.content_start, geometry.content_stop, np.float64),
        dest=_rows(dest_start, dest_size, np.int32),
        flip=np.ascontiguousarray(geometry.flip[::-1].T),
        color=color,
        fill=state.fill,
        interpolation=geometry.interpolation,
        mean_matrix=mean_matrix,
        steps=tuple(state.color.steps) or None,
        warp=warp,
        border=border,
        erase=tuple(
            _erase(*erased, *values) for erased, values in zip(state.erased, erase_values, strict=True)
        )
        or None,
        image_size=image_size,
        plain=_plain(geometry.chosen),
        window=_rows(objects.window_start, objects.window_stop, np.float64) if objects.restricted else None,
        empty=empty,
        composition=None if state.parts is None else _composition(state, state.parts, empty),
    )


def stretched_mean(
    params: ImageParams,
    mean: npt.NDArray[np.float32],
    scale: npt.NDArray[Any],
    height: npt.NDArray[Any],
    width: npt.NDArray[Any],
) -> MeanImage:
    """A mean image, (H, W, C) float32 in levels of the stored images, stretched over N images.

    ``scale``, (C,), has the units of the output for each level; ``height`` and ``width``, (N,), are those of
    the images, pixels.
    """
    size = np.array(mean.shape[:2] * 2)
    ratio = size / np.column_stack((height, width) * 2)
    start, stop = params.crop[:, :2], params.crop[:, :2] + params.crop[:, 2:]
    start = np.floor(start * ratio[:, :2]).astype(np.int32)
    stop = np.minimum(np.ceil(stop * ratio[:, :2]), size[:2]).astype(np.int32)
    where = np.ones(len(params), np.bool_) if params.empty is None else ~params.empty
    zero = np.zeros(len(scale), np.float32)
    units = Channels(scale.astype(np.float32), zero, zero)
    return MeanImage(mean, where, np.hstack((start, stop - start)), params.region * ratio, units)


def _plain(chosen: frozenset[Interpolation]) -> Literal["bilinear", "mixed"] | None:
    """``plain`` of :class:`ImageParams`, for the interpolations that a batch may have."""
    if not chosen & {Interpolation.PLAIN_BILINEAR, Interpolation.PLAIN_BICUBIC}:
        return None
    return "bilinear" if chosen == {Interpolation.PLAIN_BILINEAR} else "mixed"


def _composition(state: TransformState, parts: Parts, empty: npt.NDArray[np.bool_]) -> Composition:
    share = np.full(len(parts), WHOLE_SHARE, np.int32) if state.share is None else state.share
    image, layer = parts.image.astype(np.int32), parts.layer.astype(np.uint8)
    mask = np.full(len(parts), -1, np.int32)
    return Composition(image, ~empty, layer, share, mask, paste=state.paste)


def _erase(origin: Any, size: Any, noise: Any, value: Any, noisy: Any) -> Erase:
    box, mean = _rows(origin, size, np.int32), value.astype(np.float32)
    return Erase(box, mean, None if noise is None else Noise(noise, (noisy - value).astype(np.float32)))


def _rows(first: npt.NDArray[Any], second: npt.NDArray[Any], dtype: type) -> npt.NDArray[Any]:
    """Two (2, N) arrays as (N, 4)."""
    rows: npt.NDArray[Any] = np.empty((first.shape[1], 4), dtype)
    rows[:, :2] = first.T
    rows[:, 2:] = second.T
    return rows
