"""Subtraction of a mean image from finished images, for the native engine."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker.augment.params import ImageParams
from stoker.augment.resampling import Interpolation
from stoker.types import Layout

Images = npt.NDArray[np.float32]

_SHARE = 8
"""Images that a thread does at a time."""


def subtract_means(
    columns: Sequence[ImageParams], arrays: Sequence[Images], layout: Layout, pool: Executor
) -> None:
    """Subtract the mean images of all columns of a batch in place, on the threads of a pool."""

    def share(params: ImageParams, images: Images, first: int) -> None:
        for i in range(first, min(first + _SHARE, len(params))):
            subtract_mean(params, i, images[i], layout)

    running = [
        pool.submit(share, params, images, first)
        for params, images in zip(columns, arrays, strict=True)
        if params.mean_image is not None
        for first in range(0, len(params), _SHARE)
    ]
    for future in running:
        future.result()


def subtract_mean(params: ImageParams, i: int, image: npt.NDArray[Any], layout: Layout) -> None:
    """Subtract the mean image of image ``i`` in place, if the parameters have one."""
    mean, chosen = params.mean_image, params.interpolation
    if mean is None or not mean.where[i]:
        return
    _native.subtract_mean(
        mean.levels,
        image,
        planar=layout == "NCHW",
        crop=mean.crop[i],
        region=mean.region[i],
        dest=params.dest[i],
        flip=params.flip[i],
        interpolation=int(Interpolation.BILINEAR if chosen is None else chosen[i]),
        scale=mean.units.scale,
    )
