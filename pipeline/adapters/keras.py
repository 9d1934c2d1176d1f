"""Keras 3: ``model.fit(loader)``, with any of its backends."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import keras
import numpy as np
from keras.src.trainers.data_adapters.data_adapter import DataAdapter

from stoker.errors import ConfigError
from stoker.processes import cached_property

from ..loader import Loader
from . import LoaderView, PeekState


class KerasLoader(Loader, DataAdapter):  # type: ignore[misc]  # keras is optional
    """A loader that Keras' ``fit``, ``evaluate`` and ``predict`` take.

    Its columns are inputs, targets and sample weights, in this order.

    Keras iterates over instances of its DataAdapter, which has no public name, without reading ahead. So the
    loader's state is the position of the training. A PyDataset would read ahead.

    After a resume within an epoch the first pass is the rest of that epoch, for which Keras warns that the
    data ran out.
    """

    def get_numpy_iterator(self) -> Iterator[tuple[Any, ...]]:
        for batch in self._view():
            yield tuple(np.asarray(column) for column in batch)

    def get_jax_iterator(self) -> Iterator[tuple[Any, ...]]:
        return map(tuple, self._view())

    def get_tf_dataset(self) -> Any:
        """A ``tf.data.Dataset`` of the batches; each pass over it is an epoch."""
        from .tensorflow import dataset_of

        return dataset_of(self._view())

    def get_torch_dataloader(self) -> Any:
        """A PyTorch ``DataLoader`` of the batches; each pass over it is an epoch."""
        from .torch import data_loader

        return data_loader(self._view())

    @property
    def num_batches(self) -> int:
        return len(self)

    batch_size = has_partial_batch = partial_batch_size = None  # batches may differ in size

    @cached_property
    def _peek_state(self) -> PeekState:
        return PeekState()

    def _view(self) -> LoaderView:
        # Not kept, as a loader that refers to itself would not be freed when it is dropped.
        return LoaderView(self, self._peek_state)


def backend() -> str:
    """Name of the framework that Keras computes with; "numpy" for one that loaders do not know."""
    name = str(keras.backend.backend())
    return name if name in ("tensorflow", "jax", "torch") else "numpy"


def specialize_loader(loader: Loader) -> None:
    """Give a loader the class :class:`KerasLoader`, in addition to its own."""
    if len(loader.columns) > 3:
        raise ConfigError(
            f"Keras takes inputs, targets and sample weights, found the columns {', '.join(loader.columns)}",
            hint="Make the loader with columns=('image', 'label').",
        )
    if not loader.has_equal_epochs:
        raise ConfigError(
            "Keras runs as many steps in each epoch as in the first, and this loader's epochs differ",
            hint="They are equal with batch_size, without pack, and with last_batch='drop' or 'pad'.",
        )
    own_class: Any = type(loader)
    loader.__class__ = _keras_class(own_class)


@cache
def _keras_class(loader_class: type[Loader]) -> type[Loader]:
    """The subclass of a loader's class and of :class:`KerasLoader`, with the name of the former."""
    names = {"__module__": loader_class.__module__, "__doc__": loader_class.__doc__}
    return type(loader_class.__name__, (loader_class, KerasLoader), names)
