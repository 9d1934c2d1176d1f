"""CuPy: arrays on the GPU."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from stoker.augment.batch import MixParams
from stoker.types import Layout

from .. import adapters
from ..engines.base import to_bfloat16
from .numpy import mix_copy


class Adapter(adapters.Adapter):
    """Makes CuPy arrays on ``device``, "cuda:N"; on CuPy's current GPU if it is None."""

    library = cupy

    def __init__(self, device: str | None) -> None:
        _, _, number = (device or "").partition(":")
        self._device = cupy.cuda.Device(int(number) if number else None)

    def images(self, array: Any, dtype: str) -> Any:
        """A copy on the GPU; bfloat16 as uint16 bits."""
        with self._device:
            if isinstance(array, np.ndarray):
                return _complete(cupy.asarray(array))
            shared = cupy.from_dlpack(array)
            # DALI writes to its memory again once the array is dropped, whatever still reads it.
            return _complete(to_bfloat16(shared) if dtype == "bfloat16" else shared.copy())

    def array(self, values: Any) -> Any:
        with self._device:
            return _complete(cupy.asarray(values))

    def ragged(self, values: Any, counts: Any) -> Any:
        return cupy.split(self.array(values), np.cumsum(counts).tolist())[:-1]

    def mix(self, params: MixParams, images: Any, layout: Layout) -> Any:
        """The images after MixUp or CutMix; bfloat16 is mixed on the host."""
        with self._device:
            if images.dtype != np.uint16:  # the bits of bfloat16
                return _complete(super().mix(params, images, layout))
            return _complete(cupy.asarray(mix_copy(params, cupy.asnumpy(images), layout)))

    def take(self, images: Any, index: Any) -> Any:
        with self._device:
            return _complete(images[cupy.asarray(index)])


def _complete(array: Any) -> Any:
    """The array, after the work that makes it is done: the consumer's stream may not wait for this one."""
    cupy.cuda.get_current_stream().synchronize()
    return array


def sees_gpu() -> bool:
    return bool(cupy.is_available())
