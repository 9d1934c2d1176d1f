"""TensorFlow: eager tensors that share the engine's memory, and a ``tf.data.Dataset`` view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stoker.pipeline.loader import Loader

__all__ = ["Adapter", "sees_gpu", "tf_dataset"]


class Adapter:
    """Hands out eager tensors, on ``device`` ("cuda:0" is TensorFlow's "GPU:0") where one is named."""

    def __init__(self, device: str | None) -> None:
        self._device = None if device in (None, "cpu") else device.replace("cuda", "GPU")

    def images(self, array: Any, dtype: str) -> Any:
        """A tensor over the same memory; copied only to another device, or where DALI lacks the dtype."""
        tensor = tf.experimental.dlpack.from_dlpack(array.__dlpack__())
        wanted = tf.as_dtype(dtype)
        if tensor.dtype == tf.uint16:
            return self._place(tf.bitcast(tensor, wanted))
        return self._place(tensor if tensor.dtype == wanted else tf.cast(tensor, wanted))

    def column(self, values: Any) -> Any:
        """A tensor of the values, strings included."""
        if isinstance(values, list):
            return self._place(tf.constant(values, tf.string))
        return self._place(tf.convert_to_tensor(np.asarray(values)))

    def take(self, images: Any, index: Any) -> Any:
        """A copy of the chosen images."""
        return tf.gather(images, index)

    def _place(self, tensor: Any) -> Any:
        if self._device is None:
            return tensor
        with tf.device(self._device):
            return tf.identity(tensor)


def tf_dataset(loader: Loader) -> Any:
    """A view of ``loader`` as ``tf.data.Dataset`` of tuples in the order of its columns, one pass an epoch.

    The loader must have been made with ``output="tensorflow"``. Batches vary in length at the end of an
    epoch unless ``last_batch`` is "drop" or "pad".
    """
    specs = []
    for spec in loader.element_spec():
        dtype = tf.string if spec.dtype == "str" else tf.as_dtype(spec.dtype)
        specs.append(tf.TensorSpec((None, *spec.shape), dtype))

    def batches() -> Iterator[tuple[Any, ...]]:
        for batch in loader:
            yield tuple(batch)

    dataset = tf.data.Dataset.from_generator(batches, output_signature=tuple(specs))
    return dataset.apply(tf.data.experimental.assert_cardinality(len(loader)))


def sees_gpu() -> bool:
    """Whether this build of TensorFlow finds a GPU."""
    return bool(tf.config.list_physical_devices("GPU"))
