"""Operations on NumPy arrays that adapters share: mixing a batch in place, and splitting ragged columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.augment.batch import BatchParams, MixParams
from stoker.types import Layout


def mix_in_place(params: BatchParams, images: npt.NDArray[Any], layout: Layout) -> npt.NDArray[Any]:
    """The images after a transform of batches, bit for bit ``params.images(images, layout)``.

    It may overwrite ``images``. MixUp and CutMix of float32 take an eighth of the time in place: an image and
    its partner are in the processor's cache when they are mixed, and no second batch is written.
    """
    if not (isinstance(params, MixParams) and images.dtype == np.float32 and images.flags.writeable):
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


def mix_copy(params: BatchParams, images: npt.NDArray[Any], layout: Layout) -> npt.NDArray[Any]:
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
