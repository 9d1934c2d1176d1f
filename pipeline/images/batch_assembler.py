"""The assembly of a batch: images of the engine and annotations become the columns of a batch."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker.augment.batch.base import one_hot
from stoker.errors import ConfigError, DatasetError

from ..adapters.host_arrays import mix_in_place
from ..execution.batch import ColumnSpec
from ..order.sample_source import batched_values
from .annotations.objects import pad
from .batch_transforms import function_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from stoker.augment.batch.base import BatchParams

    from ..adapters import Adapter
    from ..execution.stats import StatsTotals
    from .annotations.annotation_processor import BatchAnnotations
    from .annotations.objects import BatchObjects
    from .array_reader import BatchArrays
    from .config import ImageLoaderConfig
    from .planned_batches import PlannedBatch

    Array = npt.NDArray[Any]
    Int64 = npt.NDArray[np.int64]

__all__ = ["BatchAssembler", "function_output_spec", "multi_hot"]


@dataclass(frozen=True, eq=False)
class _Contents:
    """The images of a batch, and what transforms of batches mix with them; None if no column needs it.

    Attributes:
        images: (N, ...) of NumPy, or on a GPU of the framework.
        labels: (N,) int64, or (N, classes) float32.
        objects: Objects of all images.
        masks: (N, H, W), class masks.
        arrays: Arrays of the user's, which nothing mixes.
    """

    images: Any
    labels: Array | None
    objects: BatchObjects | None
    masks: Array | None
    arrays: BatchArrays | None

    def mixed(self, params: BatchParams, mix: Callable[..., Any], config: ImageLoaderConfig) -> _Contents:
        """The contents after a transform of batches; ``mix`` applies its parameters to images."""
        labels, objects, masks = self.labels, self.objects, self.masks
        return _Contents(
            mix(params, self.images, config.image_format.layout),
            None if labels is None else params.labels(labels, config.dataset.num_classes),
            None if objects is None else objects.mixed(params, config.annotations.objects),
            None if masks is None else params.segmentation(masks),
            self.arrays,
        )


class BatchAssembler:
    """Assembles the batches of one epoch; the producer calls it on its thread.

    Args:
        config: Config of the loader.
        adapter: Makes arrays of the framework.
        totals: Adds up where the time goes.
        epoch: Epoch that keys the random numbers of transforms of batches.
    """

    def __init__(self, config: ImageLoaderConfig, adapter: Adapter, totals: StatsTotals, epoch: int) -> None:
        self._config = config
        self._adapter = adapter
        self._totals = totals
        self._epoch = epoch

    def make(
        self, planned: PlannedBatch, images: Any, annotated: BatchAnnotations, kept: Int64 | None
    ) -> Any:
        """Assemble a batch: transforms of batches, functions, and columns in the framework's arrays.

        Args:
            planned: The N samples of the batch.
            images: N images, as the engine returned them.
            annotated: Annotations of the N samples.
            kept: (K,) int64, positions in the batch of the samples to hand out; None for all N in order.
        """
        began, before = perf_counter(), sum(self._totals.on_batches.values())
        chosen = np.arange(len(planned)) if kept is None else kept
        objects, masks, arrays = annotated.objects, annotated.masks, annotated.arrays
        if kept is not None:
            arrays = None if arrays is None else arrays.of_samples(kept)
            objects = None if objects is None else objects.of_samples(kept, len(planned))
            masks = None if masks is None else masks[kept]
        on_gpu = not isinstance(images, np.ndarray)
        images = self._kept_images(images, kept)
        contents = _Contents(images, self._labels(planned, chosen), objects, masks, arrays)
        if len(chosen):
            mix = self._adapter.mix if on_gpu else mix_in_place
            contents = self._transform(contents, planned.draw_keys[chosen], mix)
        images = contents.images
        if not on_gpu:
            images = self._adapter.images(images, self._config.image_format.dtype)
        images = self._run_functions(images, len(chosen))
        values = [
            images if name == "image" else self._column(name, contents, planned, chosen)
            for name in self._config.columns
        ]
        elsewhere = sum(self._totals.on_batches.values()) - before
        self._totals.handing_over += perf_counter() - began - elsewhere
        return self._config.batch_type(*values)

    def _kept_images(self, images: Any, kept: Int64 | None) -> Any:
        """The images to hand out: NumPy's as they are, those on a GPU as arrays of the framework."""
        if isinstance(images, np.ndarray):
            return images if kept is None else images[kept]
        images = self._adapter.images(images, self._config.image_format.dtype)
        return images if kept is None else self._adapter.take(images, kept)

    def _transform(self, contents: _Contents, draw_keys: Int64, mix: Callable[..., Any]) -> _Contents:
        """The contents after all transforms of batches; ``mix`` applies parameters to images."""
        config = self._config
        for number in range(len(config.batch_transform_plan.transforms)):
            name, params = config.batch_transform_plan.draw(
                number, draw_keys, config.plan.size, config.draw_seed, self._epoch
            )
            with self._timed(name):
                contents = contents.mixed(params, mix, config)
        return contents

    def _run_functions(self, images: Any, n: int) -> Any:
        for function in self._config.batch_transform_plan.functions:
            with self._timed(function_name(function)):
                images = _run(function, images, n)
        return images

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        began = perf_counter()
        yield
        self._totals.on_batches[name] = self._totals.on_batches.get(name, 0.0) + perf_counter() - began

    def _labels(self, planned: PlannedBatch, chosen: Int64) -> Array | None:
        if "label" not in self._config.columns:
            return None
        dataset, positions = self._config.dataset, planned.positions[chosen]
        if not self._config.annotations.multi_label:
            labels = dataset.values("label", positions)
            # Shares of classes even if this batch mixes nothing, so that all batches have one form.
            return (
                one_hot(labels, dataset.num_classes)
                if self._config.batch_transform_plan.transforms
                else labels
            )
        lists = dataset.lists("label", positions)
        return multi_hot(lists.values, lists.counts, dataset.num_classes)

    def _column(
        self,
        name: str,
        contents: _Contents,
        planned: PlannedBatch,
        chosen: Int64,
    ) -> Any:
        objects = contents.objects
        mixed = {"label": contents.labels, "segmentation": contents.masks}.get(name)
        if mixed is not None:
            return self._adapter.column(mixed)
        if objects is not None and (name == "count" or name in self._config.annotations.objects.columns):
            return self._object_column(name, objects, len(chosen))
        if contents.arrays is not None and name in contents.arrays:
            return contents.arrays.column(name, self._adapter)
        values: Array | list[str]
        if name == "mask":  # belongs to the place in the batch, whatever sample replaces a bad one
            values = planned.mask if len(chosen) == len(planned) else planned.mask[chosen]
        elif name == "row":
            values = planned.positions[chosen]
        else:
            values = batched_values(self._config.dataset, name, planned.positions[chosen])
        return self._adapter.column(values)

    def _object_column(self, name: str, objects: BatchObjects, n: int) -> Any:
        counts = objects.counts(n)
        if name == "count":
            return self._adapter.column(counts)
        values = objects.column(name, self._config.annotations.objects)
        if self._config.annotations.objects.form == "padded":
            return self._adapter.column(pad(values, counts))
        return self._adapter.ragged(values, counts)


def function_output_spec(config: ImageLoaderConfig, adapter: Adapter, n: int) -> ColumnSpec:
    """Dtype and shape of the images that the user's functions return, found by a call with ``n`` zeros."""
    image_format = config.image_format
    zeros = np.zeros(image_format.shape(n, config.plan.size), image_format.numpy_dtype)
    images = adapter.images(zeros, image_format.dtype)
    for function in config.batch_transform_plan.functions:
        images = _run(function, images, n)
    # PyTorch's dtypes have no attribute name; their text is "torch.float32".
    name = getattr(images.dtype, "name", None) or str(images.dtype).rpartition(".")[2]
    return ColumnSpec("image", name, tuple(images.shape[1:]))


def _run(function: Callable[[Any], Any], images: Any, n: int) -> Any:
    images = function(images)
    if not hasattr(images, "shape") or images.shape[:1] != (n,):
        found = f"shape {tuple(images.shape)}" if hasattr(images, "shape") else repr(type(images))
        raise ConfigError(
            f"{function_name(function)} must return an array of {n} images, and has returned {found}",
            hint="Return as many images as the function was given.",
        )
    return images


def multi_hot(labels: Int64, counts: Int64, num_classes: int) -> npt.NDArray[np.float32]:
    """(N, num_classes) float32, 1 for each of a sample's labels.

    Args:
        labels: (L,) int64, the labels of all samples, one sample after the other.
        counts: (N,) int64, number of labels of each sample.
        num_classes: Number of classes.

    Raises:
        DatasetError: A label is not the number of a class.
    """
    outside = (labels < 0) | (labels >= num_classes)
    if outside.any():
        raise DatasetError(
            f"label {int(labels[outside][0])} in a dataset of {num_classes} classes",
            hint="Convert the source again with all of its classes.",
        )
    hot = np.zeros((len(counts), num_classes), np.float32)
    hot[np.repeat(np.arange(len(counts)), counts), labels] = 1
    return hot
