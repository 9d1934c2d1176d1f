"""MXNet: NDArrays that share the engine's memory on the CPU."""

from __future__ import annotations

from typing import Any

import mxnet
import numpy as np

from stoker.augment.batch import MixParams
from stoker.errors import ConfigError
from stoker.types import Layout

from .. import adapters
from .numpy import mix_copy


class Adapter(adapters.Adapter):
    """Makes ``mxnet.nd.NDArray``, on ``device`` or else on the CPU; "cuda:0" is MXNet's ``gpu(0)``."""

    def __init__(self, device: str | None) -> None:
        device_type, _, number = (device or "cpu").partition(":")
        self._context = mxnet.cpu() if device_type == "cpu" else mxnet.gpu(int(number or 0))

    def images(self, array: Any, dtype: str) -> Any:
        """An NDArray over the same memory on the CPU; a copy of an array that DALI made on a GPU."""
        if dtype == "bfloat16":
            raise ConfigError(
                "MXNet cannot take bfloat16 arrays from other libraries", hint="Use dtype='float16'."
            )
        if isinstance(array, np.ndarray):
            images = mxnet.nd.from_numpy(array)
        else:
            images = mxnet.nd.from_dlpack(array.__dlpack__()).copy()
            # DALI writes to its memory again once the array is dropped, whatever still reads it.
            images.wait_to_read()
        return images.astype(dtype, copy=False).as_in_context(self._context)

    def array(self, values: Any) -> Any:
        return mxnet.nd.array(values, ctx=self._context, dtype=values.dtype)

    def mix(self, params: MixParams, images: Any, layout: Layout) -> Any:
        mixed = mix_copy(params, images.asnumpy(), layout)
        return mxnet.nd.array(mixed, ctx=images.context, dtype=mixed.dtype)

    def take(self, images: Any, index: Any) -> Any:
        return mxnet.nd.take(images, mxnet.nd.array(index, ctx=images.context, dtype="int64"))


def sees_gpu() -> bool:
    return bool(mxnet.context.num_gpus())
