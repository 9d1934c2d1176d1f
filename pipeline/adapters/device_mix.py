"""MixUp and CutMix of images on a GPU, for libraries with the functions of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.augment.batch import MixParams
from stoker.types import Layout


def mix_arrays(xp: Any, params: MixParams, images: Any, layout: Layout) -> Any:
    """The images after MixUp or CutMix, as :meth:`MixParams.images` makes them, in a few kernels for all."""
    partners = images[xp.asarray(params.partner)]
    mixed = images
    if (params.share < 1).any():
        share = xp.asarray(params.share)[:, None, None, None]
        mixed = share * images.astype(np.float32) + (1 - share) * partners.astype(np.float32)
        if images.dtype == np.uint8:
            mixed = xp.clip(xp.floor(mixed + np.float32(0.5)), 0, 255)
        mixed = mixed.astype(images.dtype)
    if params.box[:, 2:].all(axis=1).any():
        rows, columns = (xp.asarray(edges) for edges in box_edges(params))
        height, width = images.shape[2:] if layout == "NCHW" else images.shape[1:3]
        inside = _between(xp, rows, height)[:, :, None] & _between(xp, columns, width)[:, None, :]
        mixed = xp.where(inside[:, None] if layout == "NCHW" else inside[..., None], partners, mixed)
    return mixed


def box_edges(params: MixParams) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """First row and the row after the last of each box, (N, 2) int32, and the same for columns."""
    start = params.box[:, :2]
    stop = start + params.box[:, 2:]
    rows, columns = (np.stack((start[:, axis], stop[:, axis]), axis=1) for axis in (0, 1))
    return rows, columns


def _between(xp: Any, edges: Any, length: int) -> Any:
    """(N, length) bool, True for the numbers from 0 that lie between two edges."""
    numbers = xp.arange(length)[None]
    return (numbers >= edges[:, :1]) & (numbers < edges[:, 1:])
