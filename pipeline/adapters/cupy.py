"""CuPy: arrays on the GPU, over the engine's memory where that is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cupy
import numpy as np

from stoker.pipeline.mixing import mix_copy, split

if TYPE_CHECKING:
    from stoker.augment.batch import BatchParams
    from stoker.pipeline.engines.base import Layout

__all__ = ["Adapter", "sees_gpu"]


class Adapter:
    """Hands out CuPy arrays on ``device``, "cuda:N"; without one, on CuPy's current GPU."""

    side = empty = None

    def __init__(self, device: str | None) -> None:
        _, _, number = (device or "").partition(":")
        self._device = cupy.cuda.Device(int(number) if number else None)

    def images(self, array: Any, dtype: str) -> Any:
        """An array over the same memory on this GPU, else a copy; bfloat16 as uint16 bits."""
        with self._device:
            on_gpu = cupy.asarray(array) if isinstance(array, np.ndarray) else cupy.from_dlpack(array)
            wanted = np.dtype("uint16" if dtype == "bfloat16" else dtype)
            return on_gpu.astype(wanted, copy=False)

    def column(self, values: Any) -> Any:
        """The values on the GPU; lists of strings stay lists."""
        if isinstance(values, list):
            return values
        with self._device:
            return cupy.asarray(values)

    def ragged(self, values: Any, counts: Any) -> Any:
        """A list of views of one array."""
        return split(self.column(values), counts)

    def mix(self, params: BatchParams, images: Any, layout: Layout) -> Any:
        """Mixed on the host, and brought back."""
        with self._device:
            return cupy.asarray(mix_copy(params, cupy.asnumpy(images), layout))

    def take(self, images: Any, index: Any) -> Any:
        """A copy of the chosen images."""
        with self._device:
            return images[cupy.asarray(index)]


def sees_gpu() -> bool:
    """Whether CuPy finds a GPU."""
    return bool(cupy.is_available())
