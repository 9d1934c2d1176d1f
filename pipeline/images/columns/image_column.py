"""Columns of images of a batch: how their images are made, and which columns of annotations follow them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.augment.params import ImageParams
from stoker.augment.plan import ImagePlan, resized
from stoker.augment.views import PatchMask, Views, view_keys
from stoker.errors import ConfigError
from stoker.formats.dataset.columns import Origins
from stoker.types import Size

from ...engines.base import ImageFormat
from ...execution.batch import ColumnSpec
from ...order.sample_source import SampleSource
from ..annotations.annotation_config import AnnotationConfig, make_annotation_config
from ..annotations.objects import ObjectConfig
from ..batch_transforms import AnyTransform, BatchTransformPlan, Transforms, function_name, split_transforms
from ..sizes.padding import IMAGE_SIZE, Padding
from .source_columns import TO_SOURCE

Int64 = npt.NDArray[np.int64]
CompileTransforms = Callable[..., ImagePlan]
"""Checks a list of transforms of images, as :func:`compile_image` does for images of a dtype and form."""


@dataclass(frozen=True)
class ImageColumn:
    """A column of images: one image of each sample, or V views of each.

    The M images of N samples stand view by view: image i shows sample i % N. M is N without views, and
    V * N otherwise.
    """

    name: str  # Name of the column
    plan: ImagePlan  # What happens to each image
    views: int | None = None  # V; None for one image of each sample, without an axis of views
    prefix: str = ""  # What the names of columns that follow these images begin with
    mask: PatchMask | None = None  # Patches to hide in each image; None for no such column
    annotations: AnnotationConfig = field(default_factory=AnnotationConfig)  # Which columns annotations make
    # The plan for each size that batches may have
    by_size: Mapping[Size, ImagePlan] = field(default_factory=dict)
    ragged: bool = False  # Whether the images, which have different sizes, are handed out as a list

    def at(self, size: Size | None) -> ImagePlan:
        """What happens to the images of a batch of ``size``; None for the size that the transforms leave."""
        return self.plan if size is None else self.by_size[size]

    def annotated(
        self,
        dataset: SampleSource,
        names: tuple[str, ...],
        objects: ObjectConfig,
        batch_transform_plan: BatchTransformPlan,
    ) -> ImageColumn:
        """The same with the columns of annotations among ``names`` that follow it."""
        bare = tuple(name.removeprefix(self.prefix) for name in names if name.startswith(self.prefix))
        bare = (*bare, *({"label"} & set(names)))  # belongs to no column of images, but is checked with each
        annotations = make_annotation_config(dataset, bare, objects, self.plan, batch_transform_plan)
        return replace(self, annotations=annotations)

    def part(self, name: str) -> str | None:
        """What a column of the batch holds of these images; None if it does not belong to them."""
        if name == self.name:
            return "image"
        if not name.startswith(self.prefix):
            return None
        bare = name.removeprefix(self.prefix)
        if bare == "mask":
            return bare if self.mask else None
        if bare == IMAGE_SIZE and self.plan.pad_to_multiple_of:
            return bare
        if bare == TO_SOURCE:
            return bare
        return bare if bare in self.annotations.columns else None

    def samples_of_images(self, n: int) -> Int64:
        """The samples that the images of a batch show, (M,) indices among ``n``."""
        samples = np.arange(n)
        return samples if self.views is None else np.tile(samples, self.views)

    def images_of(self, samples: Int64, n: int) -> Int64:
        """The images of the samples at ``samples``, (K,) indices among ``n``, view by view: (V * K,)."""
        return np.concatenate([view * n + samples for view in range(self.views or 1)])

    def keys(self, keys: Int64) -> Int64:
        """Keys of the random numbers of the images, (M,) int64, from those of N samples.

        With a single list of transforms, these are the keys of the samples.
        """
        return view_keys(keys, self.name, self.views or 1) if self.prefix else keys

    def to_source(self, params: ImageParams, origins: Origins) -> npt.NDArray[np.float64]:
        """Matrices from the pixels of the images to those of their sources, (M, 3, 3) float64."""
        shown = self.samples_of_images(len(origins.sizes))
        return origins.matrices[shown] @ params.to_source()

    def spec(self, name: str, part: str, image_format: ImageFormat, dataset: SampleSource) -> ColumnSpec:
        """Dtype and shape of the column ``name``, which holds ``part``."""
        size = self._common_size()
        if part == "image":
            shape = image_format.shape(0, size)[1:]
            return ColumnSpec(name, image_format.dtype, shape, ragged=self.ragged, views=self.views)
        if part == "mask" and self.mask:
            return ColumnSpec(name, "bool", self.mask.grid(self.plan.size), views=self.views)
        if part == IMAGE_SIZE:
            return ColumnSpec(name, "int64", (2,), views=self.views)
        if part == TO_SOURCE:
            return ColumnSpec(name, "float64", (3, 3), views=self.views)
        spec = self.annotations.spec(name, part, dataset, size, self.views)
        return replace(spec, ragged=spec.ragged or (self.ragged and part == "segmentation"))

    def _common_size(self) -> tuple[int | None, int | None]:
        """Height and width of the images, pixels; None where batches differ in it."""
        if self.plan.pad_to_multiple_of:
            return None, None
        heights, widths = map(set, zip(*(self.by_size or (self.plan.size,)), strict=True))
        height, width = self.plan.size
        return height if len(heights) == 1 else None, width if len(widths) == 1 else None

    def to_json(self) -> dict[str, Any]:
        """All that decides the images, as a dictionary that JSON can hold."""
        views = {} if self.views is None else {"views": self.views}
        mask = {"mask": self.mask.to_dict()} if self.mask else {}
        return {**self.plan.to_json(), **views, **mask}


def plan_columns(
    transforms: Transforms,
    compile_transforms: CompileTransforms,
    sizes: Sequence[Size] = (),
    padding: Padding | None = None,
) -> tuple[tuple[ImageColumn, ...], BatchTransformPlan]:
    """Check a loader's transforms, and plan its columns of images, without annotations."""
    if not isinstance(transforms, Mapping):
        _refuse_views(transforms)
        of_images, batch_transform_plan = split_transforms(transforms)
        plans = {size: compile_transforms(resized(of_images, size)) for size in sizes}
        largest = max(sizes, key=lambda size: size[0] * size[1], default=None)
        pad_to_multiple_of, ragged = (
            (padding.pad_to_multiple_of, padding.ragged) if padding else (None, False)
        )
        plan = (
            plans[largest]
            if largest
            else compile_transforms(of_images, pad_to_multiple_of=pad_to_multiple_of)
        )
        if plan.dtype == "uint16" and batch_transform_plan.transforms:
            raise ConfigError(
                "transforms of batches mix no images of dtype='uint16'", hint="Give dtype='float32'."
            )
        if padding:
            _refuse_batch_transforms(batch_transform_plan, "images of different sizes")
        return (ImageColumn("image", plan, by_size=plans, ragged=ragged),), batch_transform_plan
    if sizes or padding:
        raise ConfigError(
            "sizes needs a single list of transforms, found named columns of images",
            hint="Leave sizes out: each list of a mapping has a size of its own.",
        )
    if not transforms:
        raise ConfigError("transforms is an empty mapping", hint="Give a list, or views by their names.")
    columns = tuple(_named_column(name, listed, compile_transforms) for name, listed in transforms.items())
    _check_dtypes(columns)
    return columns, BatchTransformPlan()


def _named_column(
    name: object, transforms: Sequence[AnyTransform] | Views, compile_transforms: CompileTransforms
) -> ImageColumn:
    if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
        raise ConfigError(
            f"transforms: {name!r} cannot be the name of a column",
            hint="Choose a Python identifier without a leading underscore, such as 'large'.",
        )
    views = transforms if isinstance(transforms, Views) else None
    with _naming(name):
        listed = transforms.transforms if isinstance(transforms, Views) else transforms
        _refuse_views(listed)
        of_images, after = split_transforms(listed)
        _refuse_batch_transforms(replace(after, functions=(*after.functions, *after.whole)))
        plan = compile_transforms(of_images)
        for one in plan.combining:
            raise ConfigError(
                f"{type(one).__name__} combines samples, which named columns of images cannot do",
                hint="Leave it out, or give the loader one list of transforms to one size.",
            )
        mask = views.mask if views else None
        if mask:
            mask.grid(plan.size)
    return ImageColumn(name, plan, views.count if views else None, f"{name}_", mask)


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Add the name of a column to a ConfigError."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{name!r}: {error.message}", hint=error.hint) from None


def _refuse_views(transforms: object) -> None:
    """Raise ConfigError for Views outside a mapping."""
    listed = transforms if isinstance(transforms, Sequence) else (transforms,)
    if any(isinstance(one, Views) for one in listed):
        raise ConfigError(
            "Views stand in place of transforms",
            hint='Name them: transforms={"large": Views(2, [...]), "small": Views(8, [...])}.',
        )


def _refuse_batch_transforms(plan: BatchTransformPlan, what: str = "named columns of images") -> None:
    for transform in plan.transforms:
        raise ConfigError(
            f"{type(transform).__name__} mixes samples of a batch, which {what} cannot have",
            hint="Leave it out, or give the loader one list of transforms to one size.",
        )
    for function in plan.functions:
        raise ConfigError(
            f"{function_name(function)} is a function of batches, which {what} cannot have",
            hint="Call it in the training step, or make it a Step: a loader runs steps on each image.",
        )


def _check_dtypes(columns: Sequence[ImageColumn]) -> None:
    """Raise ConfigError unless all images have one dtype, as an engine makes them."""
    first = columns[0]
    for column in columns[1:]:
        if column.plan.dtype != first.plan.dtype:
            raise ConfigError(
                f"the images of {first.name!r} are {first.plan.dtype}, and those of {column.name!r} "
                f"{column.plan.dtype}; a loader makes one dtype",
                hint=f"Give dtype={first.plan.dtype!r}, or end both in Normalize.",
            )
