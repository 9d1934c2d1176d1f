"""TensorFlow: eager tensors that share the engine's memory, ``tf.data.Dataset`` views, and checkpoints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from stoker.augment.batch import MixParams
from stoker.types import Layout

from .. import adapters
from ..execution.pipeline import ColumnSpec
from ..loader import Loader
from . import LoaderView

_ALIGNMENT = 64
"""Bytes of alignment that TensorFlow's kernels need; unaligned memory makes them end the process."""


class Adapter(adapters.Adapter):
    """Makes eager tensors, on ``device`` if it is not None; "cuda:0" is TensorFlow's "GPU:0"."""

    library = tf

    def __init__(self, device: str | None) -> None:
        self._device = None if device in (None, "cpu") else device.replace("cuda", "GPU")

    def images(self, array: Any, dtype: str) -> Any:
        """A tensor over the same memory on the CPU if aligned; a copy of an array that DALI made on a GPU."""
        if isinstance(array, np.ndarray) and array.ctypes.data % _ALIGNMENT:
            tensor = tf.constant(array)
        else:
            tensor = tf.experimental.dlpack.from_dlpack(array.__dlpack__())
        wanted = tf.as_dtype(dtype)
        if tensor.dtype == tf.uint16:
            return self._to_device(tf.bitcast(tensor, wanted))
        images = tensor if tensor.dtype == wanted else tf.cast(tensor, wanted)
        if not isinstance(array, np.ndarray):
            # DALI writes to its memory again once the array is dropped, whatever still reads it.
            images += tf.zeros([], wanted)
            tf.test.experimental.sync_devices()
        return self._to_device(images)

    def array(self, values: Any) -> Any:
        return self._to_device(tf.convert_to_tensor(values))

    def column(self, values: Any) -> Any:
        is_text = isinstance(values, list)
        return self._to_device(tf.constant(values, tf.string)) if is_text else super().column(values)

    def ragged(self, values: Any, counts: Any) -> Any:
        """A ``tf.RaggedTensor``, (N, None, ...)."""
        return tf.RaggedTensor.from_row_lengths(self.array(values), self.array(counts), validate=False)

    def cast(self, images: Any, dtype: Any) -> Any:
        return tf.cast(images, dtype)

    def views(self, images: Any, count: int) -> Any:
        return tf.reshape(images, (count, -1, *images.shape[1:]))

    def mix(self, params: MixParams, images: Any, layout: Layout) -> Any:
        with tf.device(images.device):
            return super().mix(params, images, layout)

    def take(self, images: Any, index: Any) -> Any:
        return tf.gather(images, index)

    def _to_device(self, tensor: Any) -> Any:
        if self._device is None:
            return tensor
        with tf.device(self._device):
            return tf.identity(tensor)


def tf_dataset(loader: Loader) -> Any:
    """A ``tf.data.Dataset`` of the loader's batches, as tuples of its columns; each pass over it is an epoch.

    The last batch of an epoch may be smaller unless ``last_batch`` is "drop" or "pad". Make the dataset after
    ``load_state_dict``: its length is that of an epoch, or unknown if an epoch is resumed or epochs differ in
    length (``loader.has_equal_epochs``). The loader's ``output`` should be "tensorflow"; other arrays are
    copied.
    """
    dataset = dataset_of(LoaderView(loader))
    state = loader.state_dict()
    if state["position"] or state.get("history") or not loader.has_equal_epochs:
        return dataset
    return dataset.apply(tf.data.experimental.assert_cardinality(len(loader)))


def dataset_of(view: LoaderView) -> Any:
    """A ``tf.data.Dataset`` of the batches of ``view``, of unknown length, without prefetching."""
    specs = map(_type_spec, view.loader.element_spec())

    def batches() -> Iterator[tuple[Any, ...]]:
        return map(tuple, view)

    options = tf.data.Options()
    # The loader works ahead itself, and its state counts the batches that were taken.
    options.experimental_optimization.inject_prefetch = False
    # Each worker's loader draws its own share. A strategy would use only a part of it.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return tf.data.Dataset.from_generator(batches, output_signature=tuple(specs)).with_options(options)


def _type_spec(spec: ColumnSpec) -> Any:
    """The TypeSpec of a column; a tuple of them for a ragged column of views."""
    dtype = tf.string if spec.dtype == "str" else tf.as_dtype(spec.dtype)
    if spec.ragged:
        ragged = tf.RaggedTensorSpec((None, *spec.shape), dtype, 1)
        return ragged if spec.views is None else (ragged,) * spec.views
    views = () if spec.views is None else (spec.views,)
    return tf.TensorSpec((*views, None, *spec.shape), dtype)


class LoaderState(tf.train.experimental.PythonState):  # type: ignore[misc]  # tensorflow is optional
    """A loader's position in a checkpoint: ``tf.train.Checkpoint(model=model, loader=LoaderState(loader))``.

    Restoring raises what the loader's ``load_state_dict`` raises.
    """

    def __init__(self, loader: Loader) -> None:
        super().__init__()
        self._loader = loader

    def serialize(self) -> str:
        """The loader's state as JSON."""
        return json.dumps(self._loader.state_dict())

    def deserialize(self, string_value: bytes) -> None:
        """Load the state into the loader."""
        self._loader.load_state_dict(json.loads(string_value))


def sees_gpu() -> bool:
    return bool(tf.config.list_physical_devices("GPU"))
