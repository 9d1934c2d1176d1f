"""The mean image of a batch, for the parameters of its images."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .image_params import ImageParams
from .optional_params import Channels, MeanImage

__all__ = ["stretched_mean"]


def stretched_mean(
    params: ImageParams,
    mean: npt.NDArray[np.float32],
    scale: npt.NDArray[Any],
    height: npt.NDArray[Any],
    width: npt.NDArray[Any],
) -> MeanImage:
    """A mean image, stretched over N images, for their parameters.

    Args:
        params: Parameters of the images.
        mean: (H, W, C) float32, in levels of the stored images.
        scale: (C,), units of the output for each level.
        height: (N,), heights of the images, pixels.
        width: (N,), likewise.
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
