"""The arguments of an image loader, checked against each other and against its dataset."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import get_args

import numpy as np

from stoker.augment.plan import compile_image
from stoker.augment.transforms.pad import RandomCrop
from stoker.errors import ConfigError
from stoker.formats.codecs.decode import StoredForm, stored_form
from stoker.formats.dataset.dataset import Dataset
from stoker.types import Color, DType, Layout

from ..engines.base import ImageFormat
from ..engines.shards import open_shards
from ..execution.batch import batch_type
from ..order.orders import BlockShuffle, Order
from ..order.sample_source import SampleSource
from ..order.sampling import Sampler, make_loader_order, open_source
from ..order.schedule import LastBatch
from .arrays import ArrayConfig, ArrayForm
from .bad_samples import BadSamplePolicy, OnError
from .batch_transforms import Transforms
from .captions import Tokens, find_captions
from .columns import CompileTransforms, column_names, plan_columns
from .config import ImageLoaderConfig
from .objects import ObjectConfig
from .sizes import SizePlan, with_captions, with_planner


@dataclass(frozen=True)
class EpochArguments:
    """What an epoch draws; the attributes are arguments of :class:`stoker.ImageLoader`."""

    shuffle: bool | BlockShuffle
    sampler: Sampler | None
    samples_per_epoch: int | None  # Samples of the epochs that are cut from a stream; None for whole epochs
    seed: int
    draw_seed: int
    last_batch: LastBatch


@dataclass(frozen=True)
class ColumnArguments:
    """What batches hold, and in which form; the attributes are arguments of :class:`stoker.ImageLoader`."""

    columns: Sequence[str] | None
    objects: ObjectConfig  # The arguments for objects
    arrays: ArrayForm
    caption: Tokens | None
    dtype: DType | None
    layout: Layout
    color: Color


def make_config(
    dataset: SampleSource | str | os.PathLike[str],
    transforms: Transforms,
    size_plan: SizePlan,
    epochs: EpochArguments,
    columns: ColumnArguments,
    *,
    bad_samples: BadSamplePolicy,
) -> ImageLoaderConfig:
    """Check the arguments of a loader and open its dataset; see :class:`stoker.ImageLoader`."""
    opened = open_source(dataset, "image")
    size_plan, transforms, layout = _planned(
        size_plan, opened, epochs, bad_samples.on_error, transforms=transforms, layout=columns.layout
    )
    form = _form_of(opened, columns.color)
    images, batch_transform_plan = plan_columns(
        transforms, _compiler(columns, form), size_plan.sizes, size_plan.padding
    )
    array_config = ArrayConfig(opened.arrays, columns.arrays)
    captions = find_captions(opened, columns.caption, mixes=bool(batch_transform_plan.transforms))
    size_plan = with_captions(size_plan, captions, epochs.draw_seed)
    names = column_names(
        columns.columns,
        images,
        opened,
        last_batch=epochs.last_batch,
        objects=columns.objects,
        arrays=array_config,
        captions=captions,
        sizes=size_plan,
    )
    config = ImageLoaderConfig(
        dataset=opened,
        order=_make_order(opened, epochs, size_plan),
        images=tuple(one.annotated(opened, names, columns.objects, batch_transform_plan) for one in images),
        image_format=ImageFormat(images[0].plan.dtype, layout, columns.color, *form),
        columns=names,
        bad_samples=bad_samples,
        seed=epochs.seed,
        draw_seed=epochs.draw_seed,
        batch_type=batch_type(names),
        batch_transform_plan=batch_transform_plan,
        arrays=array_config.wanted(names),
        captions=captions,
        size_plan=size_plan,
    )
    _check_crops(config, epochs.sampler)
    return config


def _planned(
    size_plan: SizePlan,
    source: SampleSource,
    epochs: EpochArguments,
    on_error: OnError,
    *,
    transforms: Transforms,
    layout: Layout,
) -> tuple[SizePlan, Transforms, Layout]:
    """Return the size plan with the planner that it needs, if any, and what this makes of other arguments."""
    size_plan = with_planner(
        size_plan,
        source,
        shuffle=epochs.shuffle,
        sampler=epochs.sampler,
        last_batch=epochs.last_batch,
        on_error=on_error,
    )
    if planner := size_plan.planner:
        return size_plan, planner.prepared(transforms), planner.layout(layout)
    return size_plan, transforms, layout


def _make_order(source: SampleSource, epochs: EpochArguments, size_plan: SizePlan) -> Order:
    """Return the order of the draws; a planner shuffles its batches, and takes the samples in order."""
    shuffle = False if size_plan.planner else epochs.shuffle
    return make_loader_order(source, shuffle, epochs.sampler, epochs.samples_per_epoch, epochs.seed)


def _check_crops(config: ImageLoaderConfig, sampler: Sampler | None) -> None:
    """Refuse crops larger than the lowest or the narrowest image, before an epoch meets that image.

    A loader with a sampler is not checked: its sampler may never draw small images.
    """
    if sampler is not None:
        return
    dataset = config.dataset
    for column in config.images:
        crops = (one for one in column.plan.transforms if isinstance(one, RandomCrop))
        # A mixture may draw nothing from a dataset.
        if isinstance(dataset, Dataset) and any(not crop.pad_if_needed for crop in crops):
            smallest = [int(dataset.column(name).argmin()) for name in ("height", "width")]
            positions = np.array(smallest, np.int64)
            samples = dataset.samples(positions)
            config.draw(column, positions, samples, samples.row, epoch=0)


def _compiler(columns: ColumnArguments, form: StoredForm) -> CompileTransforms:
    """Return :func:`compile_image` for images of the dtype and colour asked for, stored in this form."""
    deep = ImageFormat(color=columns.color, channels=form.channels).is_deep
    return partial(compile_image, dtype=columns.dtype, channels=form.channels, deep=deep, bits=form.bits)


def _form_of(source: SampleSource, color: Color) -> StoredForm:
    """Return the form of a loader's images; of "as_stored", that of the first sample."""
    if color not in get_args(Color):
        known = "', '".join(get_args(Color))
        raise ConfigError(f"color must be one of '{known}', found {color!r}")
    if color != "as_stored":
        return StoredForm({"rgb": 3, "gray": 1, "rgba": 4}[color])
    if not len(source):
        return StoredForm(3)
    samples = source.samples(np.zeros(1, np.int64))
    shards = open_shards(source.data_files, source.data_sizes, mapped=False)
    try:
        data = shards.view(int(samples.shard[0]), int(samples.offset[0]), int(samples.length[0]))
        return stored_form(data, int(samples.codec[0]), int(samples.height[0]), int(samples.width[0]))
    except Exception as error:  # Pillow's parsers raise almost anything on damaged headers
        raise source.error(0, f"its header cannot be read: {error}") from error
    finally:
        shards.close()
