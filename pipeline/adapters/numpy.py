"""NumPy: batches as the native engine makes them."""

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

    def array(self, values: Any) -> Any:
        return values

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
        top, left, height, width = params.box[i].tolist()
        box: tuple[slice, ...] = slice(top, top + height), slice(left, left + width)
        box = (slice(None), *box) if layout == "NCHW" else box
        images[i][box] = partner[box]
    return images


def mix_copy(params: MixParams, images: npt.NDArray[Any], layout: Layout) -> npt.NDArray[Any]:
    """The images after a transform of batches, as a new array; ``images`` may have ml_dtypes' bfloat16."""
    if images.dtype.name != "bfloat16":
        return params.images(images, layout)
    return params.images(images.view(np.uint16), layout).view(images.dtype)
