"""The config of an image loader: what it does with samples, the same in every epoch."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np
import numpy.typing as npt

from stoker.arguments import one_of
from stoker.augment.plan import ImagePlan, compile_image
from stoker.augment.transforms.base import Description
from stoker.errors import ConfigError
from stoker.formats.codecs.codec import StoredForm
from stoker.processes import cached_property
from stoker.types import Color, DType, Layout

from .. import options
from ..engines.base import ImageFormat, list_files, open_shards
from ..execution.pipeline import ColumnSpec, batch_type
from ..options import BadSamples, Seeds
from ..order.exclusions import Replacements
from ..order.orders import BlockShuffle, Order, Stream, is_shuffled
from ..order.sampling import Sampler, SampleSource, make_loader_order, value_dtype
from ..order.schedule import LastBatch
from .arrays import ArrayConfig
from .batch_transforms import BatchTransformPlan, Transforms
from .columns import SOURCE_SIZE, ImageColumn, column_names, plan_columns
from .planners import patch_column_spec
from .sizes import SizePlan, with_captions, with_planner

if TYPE_CHECKING:
    from .captions import Captions, Tokens


@dataclass(frozen=True)
class ImageLoaderConfig:
    """What an image loader does with samples, the same in every epoch."""

    dataset: SampleSource  # The dataset or mixture whose samples are drawn
    order: Order  # Which samples an epoch draws, and in which order
    images: tuple[ImageColumn, ...]  # Columns of images, at least one
    image_format: ImageFormat  # Dtype and layout of the images that the engine makes
    columns: tuple[str, ...]  # Names of a batch's columns, in their order
    bad_samples: BadSamples  # What happens to bad samples
    seed: int  # Seed of the order
    draw_seed: int  # Seed of random parameters
    batch_type: Callable[..., Any]  # Makes a batch of the values of its columns, in their order
    # What happens to a batch after the engine; nothing to named image columns
    batch_transform_plan: BatchTransformPlan
    arrays: ArrayConfig  # Columns of arrays, and their form
    captions: Captions | None  # Captions, and their form; None if batches have none
    size_plan: SizePlan  # Which size and how many samples each batch has
    replacements: Replacements | None = None  # The draws that replace excluded samples

    @property
    def identity(self) -> dict[str, Any]:
        """What decides the order and the content of batches, as JSON returns it; states record it."""
        identity = {
            "dataset": self.dataset.fingerprint,
            "seed": self.seed,
            "order": repr(self.order),
            "transforms": self.transforms_to_json(),
        }
        if self.image_format.color != "rgb":
            identity["color"] = self.image_format.color
        if self.draw_seed != self.seed:
            identity["draw_seed"] = self.draw_seed
        if sizes := self.size_plan.to_json():
            identity["sizes"] = sizes
        if self.captions:
            identity["caption"] = self.captions.tokens.to_json()
        if batch := self.batch_transform_plan.to_json():
            identity["batch"] = batch
        objects = next(
            (one.annotations.objects for one in self.images if one.annotations.objects.columns), None
        )
        if objects:
            identity["box_format"] = objects.box_format
            identity |= {"min_visible": float(objects.min_visible), "min_size": float(objects.min_size)}
            if objects.swap != self.dataset.manifest.annotations.swap:
                identity["swap"] = [int(number) for number in objects.swap]
        return cast("dict[str, Any]", json.loads(json.dumps(identity)))

    @property
    def has_views(self) -> bool:
        """Whether the image columns are named."""
        return bool(self.images[0].prefix)

    @property
    def shuffled(self) -> bool:
        """Whether neighbouring draws are not neighbours in the dataset."""
        return is_shuffled(self.order)

    @property
    def multi_label(self) -> bool:
        """Whether a sample has a list of labels."""
        return "labels" in self.dataset.tasks

    @property
    def needs(self) -> frozenset[str]:
        """Names of what the engine must execute; see :attr:`ImagePlan.needs`."""
        return self.size_plan.needs.union(*(one.plan.needs for one in self.images))

    @property
    def last_custom_steps(self) -> frozenset[str]:
        """The custom steps among :attr:`needs` that come last in each image column that has them."""
        last = frozenset().union(*(one.plan.last_custom_steps for one in self.images))
        return last.difference(*(one.plan.needs - one.plan.last_custom_steps for one in self.images))

    def transforms_to_json(self) -> dict[str, Any]:
        """Everything that decides the images, as a dictionary that JSON can hold."""
        if not self.has_views:
            return self.images[0].to_json()
        return {"columns": {one.name: one.to_json() for one in self.images}}

    def part(self, name: str) -> tuple[int, str] | None:
        """The image column that a column of the batch belongs to, and what it holds of these images."""
        found = ((number, one.part(name)) for number, one in enumerate(self.images))
        return next(((number, part) for number, part in found if part), None)

    def spec(self, name: str) -> ColumnSpec:
        """Dtype and shape of a column, without the batch axis."""
        if planner := self.size_plan.patch_planner:
            return patch_column_spec(name, planner, self.image_format)
        if found := self.part(name):
            return self.images[found[0]].spec(name, found[1], self.image_format, self.dataset)
        if arrays := self.arrays.spec(name):
            return arrays
        if captions := self.captions and self.captions.spec(name):
            return captions
        if name == "label" and (self.multi_label or self.batch_transform_plan.transforms):
            return ColumnSpec(name, "float32", (self.dataset.num_classes,))
        known = {"mask": "bool", "row": "int64", SOURCE_SIZE: "int64"}
        shape = (2,) if name == SOURCE_SIZE else ()
        return ColumnSpec(name, known.get(name) or value_dtype(self.dataset, name), shape)

    def shown(
        self, epoch: int, draws: npt.NDArray[np.int64], shown_at: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Positions, (M,), of the samples of draws, and of those shown instead of excluded ones."""
        # A draw may be shown at another one, ``shown_at``, as a partner in a mosaic is: exclusions count
        # there.
        positions = self.order.positions(epoch, draws)
        if self.replacements is None:
            return positions, positions
        return positions, self.replacements.shown(self.order, epoch, draws, positions, shown_at)

    def draw_epoch(self, epoch: int) -> int:
        """The epoch that keys random parameters: always 0 for a stream, whose draw keys go on over epochs."""
        return 0 if isinstance(self.order, Stream) else epoch

    def draw_keys(
        self, epoch: int, draws: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Keys of random parameters, (N,) int64: the rows, or the draws if an epoch may draw a row twice."""
        # draws (N,) int64, rows (N,) int64
        if isinstance(self.order, Stream):
            return self.order.stream_draws(epoch, draws)
        return rows if self._rows_are_distinct else draws

    @cached_property
    def _rows_are_distinct(self) -> bool:
        return self.order.distinct and self.dataset.is_distinct


def make_config(
    source: SampleSource,
    transforms: Transforms,
    size_plan: SizePlan,
    *,
    shuffle: bool | BlockShuffle,
    sampler: Sampler | None,
    samples_per_epoch: int | None,
    seeds: Seeds,
    last_batch: LastBatch,
    columns: Sequence[str] | None,
    objects: options.Objects,
    caption: Tokens | None,
    dtype: DType | None,
    color: Color,
    layout: Layout,
    bad_samples: BadSamples,
) -> ImageLoaderConfig:
    """Check the arguments of a loader against each other and its dataset; see :class:`stoker.ImageLoader`."""
    size_plan = with_planner(
        size_plan,
        source,
        shuffle=shuffle,
        sampler=sampler,
        last_batch=last_batch,
        on_error=bad_samples.on_error,
    )
    if planner := size_plan.planner:  # it shuffles its batches, and takes the samples in order
        transforms, layout, shuffle = planner.prepared(transforms), planner.layout(layout), False
    form = _form_of(source, color)
    deep = ImageFormat(color=color, channels=form.channels).is_deep
    compile_transforms = partial(
        _compile_for, source, dtype=dtype, channels=form.channels, deep=deep, bits=form.bits
    )
    images, batch_plan = plan_columns(transforms, compile_transforms, size_plan.sizes, size_plan.padding)
    arrays = ArrayConfig(source.arrays, objects.arrays)
    captions = None
    if caption is not None:
        from .captions import find_captions

        captions = find_captions(source, caption, mixes=bool(batch_plan.transforms))
        size_plan = with_captions(size_plan, captions, seeds.augmentation)
    names = column_names(
        columns,
        images,
        source,
        last_batch=last_batch,
        objects=objects,
        arrays=arrays,
        captions=captions,
        sizes=size_plan,
    )
    return ImageLoaderConfig(
        dataset=source,
        order=make_loader_order(source, shuffle, sampler, samples_per_epoch, seeds.order),
        images=tuple(one.annotated(source, names, objects, batch_plan) for one in images),
        image_format=ImageFormat(images[0].plan.dtype, layout, color, *form),
        columns=names,
        bad_samples=bad_samples,
        seed=seeds.order,
        draw_seed=seeds.augmentation,
        batch_type=batch_type(names),
        batch_transform_plan=batch_plan,
        arrays=arrays.wanted(names),
        captions=captions,
        size_plan=size_plan,
    )


def _compile_for(source: SampleSource, transforms: Sequence[Description], **options: Any) -> ImagePlan:
    """Compile transforms, which may leave the size to the images if these have one size."""
    try:
        return compile_image(transforms, **options)
    except ConfigError:
        height, width = source.column("height"), source.column("width")  # of all images: only where needed
        if not len(source) or np.any(height != height[0]) or np.any(width != width[0]):
            raise
    return compile_image(transforms, image_size=(int(height[0]), int(width[0])), **options)


def _form_of(source: SampleSource, color: Color) -> StoredForm:
    """Return the form of a loader's images; of "as_stored", that of the first sample."""
    one_of("color", color, get_args(Color))
    if color != "as_stored":
        return StoredForm({"rgb": 3, "gray": 1, "rgba": 4}[color])
    if not len(source):
        return StoredForm(3)
    from stoker.formats.codecs.decode import stored_form  # it loads Pillow

    samples = source.samples(np.zeros(1, np.int64))
    shards = open_shards(
        source.data_files, source.data_sizes, mapped=False, listing=list_files(source.datasets)
    )
    try:
        data = shards.view(int(samples.shard[0]), int(samples.offset[0]), int(samples.length[0]))
        return stored_form(data, int(samples.codec[0]), int(samples.height[0]), int(samples.width[0]))
    except Exception as error:  # Pillow's parsers raise almost anything on damaged headers
        raise source.error(0, f"its header cannot be read: {error}") from error
    finally:
        shards.close()
