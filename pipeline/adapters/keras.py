"""Keras 3: ``model.fit(loader)``, with any of its backends."""

from __future__ import annotations

from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from keras.src.trainers.data_adapters.data_adapter import DataAdapter

from stoker.errors import ConfigError

from ..execution.loader import Loader
from .loader_view import LoaderView, PeekState

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["KerasLoader", "backend", "specialize_loader"]


class KerasLoader(Loader, DataAdapter):  # type: ignore[misc]  # keras is optional
    """A loader that is what Keras asks of data, too.

    ``fit``, ``evaluate`` and ``predict`` take data of types that Keras knows, and instances of DataAdapter,
    which has no public name, as they are. Unlike a PyDataset these are not read ahead by Keras, so that the
    loader's state is that of the training. The columns are inputs, targets, and sample weights.

    After a resume within an epoch the first pass is what was left of it, which Keras announces with the
    warning that the data ran out.
    """

    def get_numpy_iterator(self) -> Iterator[tuple[Any, ...]]:
        """Batches of NumPy's arrays, one pass."""
        for batch in self._view():
            yield tuple(np.asarray(column) for column in batch)

    def get_jax_iterator(self) -> Iterator[tuple[Any, ...]]:
        """Batches, one pass."""
        return map(tuple, self._view())

    def get_tf_dataset(self) -> Any:
        """A ``tf.data.Dataset`` of the batches, one pass each time it is iterated over."""
        from .tensorflow import dataset_of

        return dataset_of(self._view())

    def get_torch_dataloader(self) -> Any:
        """A ``DataLoader`` of the batches, likewise."""
        from .torch import data_loader

        return data_loader(self._view())

    @property
    def num_batches(self) -> int:
        """Steps of a whole epoch."""
        return len(self)

    @property
    def batch_size(self) -> None:
        """Not told: batches need not have one size."""

    @property
    def has_partial_batch(self) -> None:
        """Not told."""

    @property
    def partial_batch_size(self) -> None:
        """Not told."""

    @cached_property
    def _peek(self) -> PeekState:
        return PeekState()

    def _view(self) -> LoaderView:
        # Made anew each time: a loader that held it would hold itself.
        return LoaderView(self, self._peek)


def backend() -> str:
    """The framework whose arrays Keras computes with; "numpy" where that is none that a loader knows."""
    name = str(keras.backend.backend())
    return name if name in ("tensorflow", "jax", "torch") else "numpy"


def specialize_loader(loader: Loader) -> None:
    """Have ``loader`` be a :class:`KerasLoader` from now on.

    Raises:
        ConfigError: It has more columns than Keras takes, or epochs of different lengths.
    """
    if len(loader.columns) > 3:
        raise ConfigError(
            f"Keras takes inputs, targets and sample weights, found the columns {', '.join(loader.columns)}",
            hint="Make the loader with columns=('image', 'label').",
        )
    if not loader.has_equal_epochs:
        raise ConfigError(
            "Keras makes as many steps in each epoch as in the first, and this loader's epochs differ",
            hint="They are equal with batch_size, without pack, and with last_batch='drop' or 'pad'.",
        )
    loader.__class__ = _keras_class(type(loader))


@cache
def _keras_class(kind: type[Loader]) -> type[Loader]:
    """The subclass of a loader's class that is a :class:`KerasLoader`, and goes by the same name."""
    return type(kind.__name__, (kind, KerasLoader), {"__module__": kind.__module__, "__doc__": kind.__doc__})
