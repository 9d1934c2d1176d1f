"""Keras 3: ``model.fit`` on a loader, with any of its backends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from keras.src.trainers.data_adapters.data_adapter import DataAdapter

from stoker.errors import ConfigError
from stoker.pipeline.adapters.view import View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stoker.pipeline.loader import Loader

__all__ = ["keras_dataset"]


class _LoaderData(DataAdapter):  # type: ignore[misc]  # keras is optional
    """What Keras asks of data; the class has no public name, and ``fit`` accepts its instances as they are.

    Unlike a PyDataset it is not read ahead by Keras, so that the loader's state is that of the training.
    """

    def __init__(self, loader: Loader) -> None:
        self._view = View(loader)

    def get_numpy_iterator(self) -> Iterator[tuple[Any, ...]]:
        for batch in self._view:
            yield tuple(np.asarray(column) for column in batch)

    def get_jax_iterator(self) -> Iterator[tuple[Any, ...]]:
        return map(tuple, self._view)

    def get_tf_dataset(self) -> Any:
        from stoker.pipeline.adapters.tensorflow import dataset_of

        return dataset_of(self._view)

    def get_torch_dataloader(self) -> Any:
        from stoker.pipeline.adapters.torch import data_loader

        return data_loader(self._view)

    @property
    def num_batches(self) -> int:
        return len(self._view)

    @property
    def batch_size(self) -> None:
        return None

    @property
    def has_partial_batch(self) -> None:
        return None

    @property
    def partial_batch_size(self) -> None:
        return None


def keras_dataset(loader: Loader) -> Any:
    """A view of ``loader`` for Keras: ``model.fit(keras_dataset(loader), epochs=10)``, likewise ``evaluate``.

    The loader's columns are inputs, targets, and sample weights, in this order; two of them are the rule,
    and a third one, the ``mask`` of ``last_batch="pad"``, makes padding weigh nothing in a loss whose
    ``reduction`` is "mean_with_sample_weight". The loader's ``output`` is Keras' backend, or "numpy".

    Each epoch of ``fit`` is one pass with ``len(loader)`` steps. After a resume within an epoch the first
    one is what was left of it, which Keras announces with the warning that the data ran out.

    Raises:
        ConfigError: The loader has more than three columns.
    """
    names = [spec.name for spec in loader.element_spec()]
    if len(names) > 3:
        raise ConfigError(
            f"Keras takes inputs, targets and sample weights, found the columns {', '.join(names)}",
            hint="Make the loader with columns=('image', 'label').",
        )
    return _LoaderData(loader)
