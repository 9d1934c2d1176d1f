"""The config of an image loader: its arguments, checked against each other and against its dataset."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from stoker.arguments import list_of_names
from stoker.augment.plan import compile_image
from stoker.augment.transforms.geometry.pad import RandomCrop
from stoker.errors import ConfigError
from stoker.formats.dataset.columns.array_columns import shape_column
from stoker.formats.dataset.dataset import Dataset

from ..engines.base import ImageFormat
from ..execution.batch import ColumnSpec, batch_type
from ..order.epoch_order import BlockShuffle, Order, Stream
from ..order.sample_source import batchable_columns, value_dtype
from ..order.sampling import make_loader_order, open_source
from .annotations.annotation_config import AnnotationConfig, make_annotation_config, task_columns
from .array_reader import ArrayConfig
from .bad_samples import BadSampleBudget, OnError, make_bad_sample_budget
from .batch_transforms import BatchTransformPlan, split_transforms

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from stoker.augment.geometry.boxes import Objects
    from stoker.augment.params.image_params import ImageParams
    from stoker.augment.plan import ImagePlan
    from stoker.formats.dataset.samples import Samples
    from stoker.types import DType, Layout

    from ..order.rank_draws import LastBatch
    from ..order.sample_source import SampleSource
    from ..order.sampling import Sampler
    from .annotations.objects import ObjectConfig
    from .array_reader import ArrayForm
    from .batch_transforms import AnyTransform

__all__ = ["ImageLoaderConfig", "make_config"]


@dataclass(frozen=True)
class ImageLoaderConfig:
    """What an image loader does with samples, the same in every epoch.

    Attributes:
        dataset: The dataset or mixture whose samples are drawn.
        order: Which samples an epoch draws, and in which order.
        plan: What happens to each image.
        image_format: Dtype and layout of the images that the engine makes.
        columns: Names of a batch's columns, in their order.
        on_error: What happens to a bad sample.
        bad_sample_budget: How many bad samples an epoch may have where they are no errors.
        seed: Seed of the order.
        draw_seed: Seed of random parameters.
        batch_type: Makes a batch of the values of its columns, in their order.
        batch_transform_plan: What happens to a batch after the engine.
        annotations: Which columns annotations make, and how.
    """

    dataset: SampleSource
    order: Order
    plan: ImagePlan
    image_format: ImageFormat
    columns: tuple[str, ...]
    on_error: OnError
    bad_sample_budget: BadSampleBudget
    seed: int
    draw_seed: int
    batch_type: Callable[..., Any]
    batch_transform_plan: BatchTransformPlan
    annotations: AnnotationConfig

    @property
    def identity(self) -> dict[str, Any]:
        """What decides the order and the content of batches, as JSON returns it; states record it."""
        identity = {
            "dataset": self.dataset.fingerprint,
            "seed": self.seed,
            "order": repr(self.order),
            "transforms": self.plan.to_json(),
        }
        if self.draw_seed != self.seed:
            identity["draw_seed"] = self.draw_seed
        if batch := self.batch_transform_plan.to_json():
            identity["batch"] = batch
        if (objects := self.annotations.objects).columns:
            identity["box_format"] = objects.box_format
            identity |= {"min_visible": float(objects.min_visible), "min_size": float(objects.min_size)}
        return cast("dict[str, Any]", json.loads(json.dumps(identity)))

    def spec(self, name: str) -> ColumnSpec:
        """Dtype and shape of a column, without the batch axis."""
        annotated = self.annotations.spec(name, self.dataset, self.plan.size)
        if annotated:
            return annotated
        if name == "label" and (self.annotations.multi_label or self.batch_transform_plan.transforms):
            return ColumnSpec(name, "float32", (self.dataset.num_classes,))
        image = self.image_format.dtype, self.image_format.shape(0, self.plan.size)[1:]
        known = {"image": image, "mask": ("bool", ()), "row": ("int64", ())}
        return ColumnSpec(name, *(known.get(name) or (value_dtype(self.dataset, name), ())))

    def draw_epoch(self, epoch: int) -> int:
        """The epoch that keys random parameters: always 0 for a stream, whose draw keys go on over epochs."""
        return 0 if isinstance(self.order, Stream) else epoch

    def draw_keys(
        self, epoch: int, draws: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Keys of random parameters, (N,) int64: the rows, or the draws if an epoch may draw a row twice.

        Args:
            epoch: Epoch of the draws.
            draws: (N,) int64, numbers of the draws in the epoch.
            rows: (N,) int64, rows of the samples in the index.
        """
        if isinstance(self.order, Stream):
            return self.order.stream_draws(epoch, draws)
        return rows if self._rows_are_distinct else draws

    def draw(
        self,
        positions: npt.NDArray[np.int64],
        samples: Samples,
        keys: npt.NDArray[np.int64],
        epoch: int,
        objects: Objects | None = None,
    ) -> ImageParams:
        """Draw the parameters of N samples; see :meth:`ImagePlan.draw`.

        Args:
            positions: (N,) int64, positions of the samples in the dataset.
            samples: Their rows of the index.
            keys: (N,) int64, keys of their random numbers.
            epoch: Epoch that keys their random numbers.
            objects: Their objects, if a transform decides by boxes.

        Raises:
            ConfigError: A transform refuses an image, such as one smaller than a crop; names the sample.
        """
        rows = np.arange(len(positions))
        try:
            return self._draw(rows, samples, keys, epoch, objects)
        except ConfigError:
            for i in rows.tolist():  # finds the sample that is refused, which is refused alone, too
                own = objects and objects.take(rows[i : i + 1])
                with self._naming(int(positions[i])):
                    self._draw(rows[i : i + 1], samples, keys, epoch, own)
            raise

    def _draw(
        self,
        rows: npt.NDArray[np.int64],
        samples: Samples,
        keys: npt.NDArray[np.int64],
        epoch: int,
        objects: Objects | None,
    ) -> ImageParams:
        height, width = samples.height[rows], samples.width[rows]
        return self.plan.draw(height, width, keys[rows], self.draw_seed, epoch, objects=objects)

    @contextmanager
    def _naming(self, position: int) -> Iterator[None]:
        """Add the sample at ``position`` to a ConfigError."""
        try:
            yield
        except ConfigError as error:
            place = self.dataset.error(position, error.message)
            raise ConfigError(
                error.message,
                path=place.path,
                shard=place.shard,
                record=place.record,
                key=place.key,
                hint=error.hint,
            ) from None

    @cached_property
    def _rows_are_distinct(self) -> bool:
        return self.order.distinct and self.dataset.is_distinct


def make_config(
    dataset: SampleSource | str | os.PathLike[str],
    transforms: Sequence[AnyTransform],
    *,
    shuffle: bool | BlockShuffle,
    sampler: Sampler | None,
    samples_per_epoch: int | None,
    seed: int,
    draw_seed: int | None,
    last_batch: LastBatch,
    columns: Sequence[str],
    dtype: DType | None,
    layout: Layout,
    on_error: OnError,
    max_bad: int | float | None,
    objects: ObjectConfig,
    arrays: ArrayForm,
) -> ImageLoaderConfig:
    """Check the arguments of a loader and open its dataset; see :class:`stoker.ImageLoader`.

    Raises:
        ConfigError: An argument is wrong, or two arguments do not fit each other.
        DatasetError: The path holds no dataset that can be read.
    """
    if on_error not in ("raise", "skip", "replace"):
        raise ConfigError(f"on_error must be 'raise', 'skip' or 'replace', found {on_error!r}")
    opened = open_source(dataset, "image")
    of_images, batch_transform_plan = split_transforms(transforms)
    plan = compile_image(of_images, dtype)
    order = make_loader_order(opened, shuffle, sampler, samples_per_epoch, seed)
    array_config = ArrayConfig(opened.arrays, arrays)
    names = _columns(columns, opened, last_batch, objects, array_config)
    config = ImageLoaderConfig(
        opened,
        order,
        plan,
        ImageFormat(plan.dtype, layout),
        names,
        on_error,
        make_bad_sample_budget(max_bad, on_error),
        seed,
        seed if draw_seed is None else draw_seed,
        batch_type(names),
        batch_transform_plan,
        make_annotation_config(opened, names, objects, plan, batch_transform_plan, arrays=array_config),
    )
    if sampler is None:  # a sampler may never draw small images
        _check_sizes(config)
    return config


def _check_sizes(config: ImageLoaderConfig) -> None:
    """Refuse crops larger than the lowest or the narrowest image, before an epoch meets that image."""
    dataset = config.dataset
    crops = (one for one in config.plan.transforms if isinstance(one, RandomCrop))
    # A mixture may draw nothing from a dataset.
    if isinstance(dataset, Dataset) and any(not crop.pad_if_needed for crop in crops):
        smallest = [int(dataset.column(name).argmin()) for name in ("height", "width")]
        positions = np.array(smallest, np.int64)
        samples = dataset.samples(positions)
        config.draw(positions, samples, samples.row, 0)


def _columns(
    columns: Sequence[str],
    dataset: SampleSource,
    last_batch: LastBatch,
    objects: ObjectConfig,
    arrays: ArrayConfig,
) -> tuple[str, ...]:
    names, annotated = list_of_names("columns", columns), task_columns(dataset)
    if last_batch == "pad" and "mask" not in names:
        names = (*names, "mask")
    if objects.form == "padded" and "count" not in names and set(annotated) & set(names) - {"segmentation"}:
        names = (*names, "count")
    names = arrays.with_shapes(names)
    known = {"image", "row", "mask"} | batchable_columns(dataset)
    known |= {*arrays.columns, *map(shape_column, arrays.columns)}
    known |= {
        *annotated,
        *(["count"] if "boxes" in annotated else []),
        *(["label"] if "label" in dataset.types else []),
    }
    for name in names:
        if name not in known:
            arrow_type = dataset.types.get(name)
            found = (
                f"{name!r} holds {arrow_type}, which no batch has" if arrow_type else f"there is no {name!r}"
            )
            raise ConfigError(
                f"columns: {found}",
                path=dataset.path,
                hint=f"There are {', '.join(sorted(known))}.",
            )
    if not names:
        raise ConfigError("columns must name at least one column")
    return names
