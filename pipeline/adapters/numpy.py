"""NumPy: batches as the native engine makes them; and what the adapters of similar libraries share."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.augment.batch import MixParams
from stoker.errors import ConfigError
from stoker.types import Layout

from .. import adapters


class Adapter(adapters.Adapter):
    """Makes NumPy arrays; bfloat16 has the dtype of ``ml_dtypes`` if it is installed, else uint16 bits."""

    def __init__(self, device: str | None) -> None:
        if device not in (None, "cpu"):
            raise ConfigError(
                f"NumPy's arrays lie on the CPU, found device {device!r}", hint="Use output='torch' or 'jax'."
            )

    def images(self, array: Any, dtype: str) -> Any:
        if dtype != "bfloat16":
            return array
        try:
            from ml_dtypes import bfloat16
        except ImportError:
            return array
        return array.view(bfloat16)

    def column(self, values: Any) -> Any:
        return values if isinstance(values, list) else np.asarray(values)

    def ragged(self, values: Any, counts: Any) -> Any:
        return split(values, counts)

    def mix(self, params: MixParams, images: Any, layout: Layout) -> Any:
        return mix_in_place(params, images, layout)

    def take(self, images: Any, index: Any) -> Any:
        return images[index]


def sees_gpu() -> bool:
    return False


def mix_in_place(params: MixParams, images: npt.NDArray[Any], layout: Layout) -> npt.NDArray[Any]:
    """The images after a transform of batches, bit for bit ``params.images(images, layout)``."""
    # It may overwrite ``images``. MixUp and CutMix of float32 take an eighth of the time in place: an image
    # and its partner are in the processor's cache when they are mixed, and no second batch is written.
    if images.dtype != np.float32 or not images.flags.writeable:
        return params.images(images, layout)
    n = len(images)
    if n == 0 or not np.array_equal(params.partner, np.roll(np.arange(n), 1)):
        return params.images(images, layout)
    # From the last to the first, so that the partner, the image before, is not mixed yet.
    last = images[-1].copy()
    scratch = np.empty_like(last)
    for i in range(n - 1, -1, -1):
        partner = images[i - 1] if i else last
        share = params.share[i]
        if share < 1:
            np.multiply(partner, 1 - share, out=scratch)
            images[i] *= share
            images[i] += scratch
        box = partner_box(params, i, layout)
        images[i][box] = partner[box]
    return images


def mix_copy(params: MixParams, images: npt.NDArray[Any], layout: Layout) -> npt.NDArray[Any]:
    """The images after a transform of batches, as a new array; ``images`` may have ml_dtypes' bfloat16."""
    if images.dtype.name != "bfloat16":
        return params.images(images, layout)
    return params.images(images.view(np.uint16), layout).view(images.dtype)


def split(values: npt.NDArray[Any], counts: npt.NDArray[np.int64]) -> list[npt.NDArray[Any]]:
    """N views: the next ``counts[i]`` rows of ``values``, (M, ...), for each sample i."""
    ends = np.cumsum(counts).tolist()
    return [values[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def partner_box(params: MixParams, i: int, layout: Layout) -> tuple[slice, ...]:
    """Index of the box in the image of sample ``i`` that its partner's pixels replace."""
    top, left, height, width = params.box[i].tolist()
    rows, columns = slice(top, top + height), slice(left, left + width)
    return (slice(None), rows, columns) if layout == "NCHW" else (rows, columns)


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
