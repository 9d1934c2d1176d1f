"""Typical samples of a dataset, from which the engine "dali" prepares itself before the first batch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError
from stoker.types import Size

from ..engines.base import Work
from ..order.sampling import SampleSource
from .config import ImageLoaderConfig

_TYPICAL = 512
_MEASURED = 1 << 16
_SHARE = 99.9  # per cent of the images that are at most as high, or as wide, as the largest size says


def typical_work(config: ImageLoaderConfig) -> Work | None:
    """Samples from all over the dataset, with parameters of epoch 0; None if a transform refuses one."""
    positions = _spread(len(config.dataset), _TYPICAL)
    samples = config.dataset.samples(positions)
    try:
        drawn = (config.draw(one, positions, samples, positions, epoch=0) for one in config.images)
        params, *others = drawn
    except ConfigError:  # of an image that may never be drawn
        return None
    return Work(samples, params, tuple(others))


def largest_size(dataset: SampleSource) -> Size:
    """Height and width, pixels, that 99.9% of the images do not exceed."""
    samples = dataset.samples(_spread(len(dataset), _MEASURED))
    height, width = (
        int(np.percentile(side, _SHARE, method="inverted_cdf")) for side in (samples.height, samples.width)
    )
    return height, width


def _spread(n: int, count: int) -> npt.NDArray[np.int64]:
    """At most ``count`` positions of ``n``, at equal distances."""
    return np.unique(np.linspace(0, n - 1, min(n, count)).astype(np.int64))
