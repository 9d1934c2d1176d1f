"""TensorFlow: eager tensors that share the engine's memory, a ``tf.data.Dataset`` view, checkpoints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from .host_arrays import mix_copy
from .loader_view import LoaderView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stoker.augment.batch.base import BatchParams
    from stoker.types import Layout

    from ..execution.loader import Loader

__all__ = ["Adapter", "LoaderState", "dataset_of", "sees_gpu", "tf_dataset"]

_ALIGNMENT = 64
"""Bytes to which memory is aligned that TensorFlow's kernels take; with other memory they end the process."""


class Adapter:
    """Hands out eager tensors, on ``device`` ("cuda:0" is TensorFlow's "GPU:0") where one is named."""

    copy_stream = allocate = None

    def __init__(self, device: str | None) -> None:
        self._device = None if device in (None, "cpu") else device.replace("cuda", "GPU")

    def images(self, array: Any, dtype: str) -> Any:
        """A tensor over the same memory on the CPU, if aligned; a copy of what DALI left on a GPU."""
        if isinstance(array, np.ndarray) and array.ctypes.data % _ALIGNMENT:
            tensor = tf.constant(array)
        else:
            tensor = tf.experimental.dlpack.from_dlpack(array.__dlpack__())
        wanted = tf.as_dtype(dtype)
        if tensor.dtype == tf.uint16:
            return self._place(tf.bitcast(tensor, wanted))
        images = tensor if tensor.dtype == wanted else tf.cast(tensor, wanted)
        if not isinstance(array, np.ndarray):
            # DALI uses memory again as soon as it is let go: it knows nothing of who still reads it.
            images += tf.zeros([], wanted)
            tf.test.experimental.sync_devices()
        return self._place(images)

    def column(self, values: Any) -> Any:
        """A tensor of the values, strings included."""
        if isinstance(values, list):
            return self._place(tf.constant(values, tf.string))
        return self._place(tf.convert_to_tensor(np.asarray(values)))

    def ragged(self, values: Any, counts: Any) -> Any:
        """A ``tf.RaggedTensor``, (N, None, ...)."""
        return tf.RaggedTensor.from_row_lengths(self.column(values), self.column(counts), validate=False)

    def mix(self, params: BatchParams, images: Any, layout: Layout) -> Any:
        """Mixed on the host, and put where they were."""
        mixed = mix_copy(params, images.numpy(), layout)
        with tf.device(images.device):
            return tf.constant(mixed, images.dtype)

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

    Batches vary in length at the end of an epoch unless ``last_batch`` is "drop" or "pad". Make the view
    after ``load_state_dict``: it is as long as an epoch, and unknown where one is taken up in the middle, or
    where epochs differ in length (``loader.has_equal_epochs``).
    The loader's ``output`` should be "tensorflow"; arrays of others are copied.
    """
    dataset = dataset_of(LoaderView(loader))
    state = loader.state_dict()
    if state["position"] or state.get("history") or not loader.has_equal_epochs:
        return dataset
    return dataset.apply(tf.data.experimental.assert_cardinality(len(loader)))


def dataset_of(view: LoaderView) -> Any:
    """A ``tf.data.Dataset`` of the batches of ``view``, of unknown length, read only when asked for one."""
    specs = []
    for spec in view.loader.element_spec():
        dtype = tf.string if spec.dtype == "str" else tf.as_dtype(spec.dtype)
        shape = (None, *spec.shape)
        specs.append(tf.RaggedTensorSpec(shape, dtype, 1) if spec.ragged else tf.TensorSpec(shape, dtype))

    def batches() -> Iterator[tuple[Any, ...]]:
        return map(tuple, view)

    options = tf.data.Options()
    # The loader works ahead, and its state counts what was asked for.
    options.experimental_optimization.inject_prefetch = False
    return tf.data.Dataset.from_generator(batches, output_signature=tuple(specs)).with_options(options)


class LoaderState(tf.train.experimental.PythonState):  # type: ignore[misc]  # tensorflow is optional
    """A loader's place in a ``tf.train.Checkpoint``: ``Checkpoint(model=model, loader=LoaderState(loader))``.

    Restoring raises what ``load_state_dict`` does.
    """

    def __init__(self, loader: Loader) -> None:
        super().__init__()
        self._loader = loader

    def serialize(self) -> str:
        """The loader's state as JSON."""
        return json.dumps(self._loader.state_dict())

    def deserialize(self, string_value: bytes) -> None:
        """Have the loader go on there."""
        self._loader.load_state_dict(json.loads(string_value))


def sees_gpu() -> bool:
    """Whether this build of TensorFlow finds a GPU."""
    return bool(tf.config.list_physical_devices("GPU"))
