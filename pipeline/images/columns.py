"""The columns of an image batch: image columns and what follows them, and the names of all columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from stoker.arguments import some_of
from stoker.augment.params import ImageParams
from stoker.augment.plan import ImagePlan, resized
from stoker.augment.views import PatchMask, Views, view_keys
from stoker.errors import ConfigError
from stoker.formats.dataset.columns import Origins, batchable_columns, shape_column
from stoker.formats.token_columns import CAPTION, IDS_COLUMN
from stoker.types import Size

from ..engines.base import ImageFormat
from ..execution.pipeline import ColumnSpec, wanted_columns
from ..options import Objects, Padded, Ragged
from ..order.sampling import SampleSource
from ..order.schedule import LastBatch
from .annotations import AnnotationConfig, make_annotation_config, task_columns
from .arrays import ArrayConfig
from .batch_transforms import AnyTransform, BatchTransformPlan, Transforms, function_name, split_transforms
from .planners import PATCH_COLUMNS
from .sizes import SizePlan

if TYPE_CHECKING:
    from .captions import Captions

Int64 = npt.NDArray[np.int64]

# The way back from pixels of a batch to pixels of the sources, see augment/geometry/source_coordinates.py.
TO_SOURCE = "to_source"  # matrices, which follow images, so that views have one each
IMAGE_SIZE = "image_size"  # heights and widths of padded images
SOURCE_SIZE = "source_size"  # heights and widths, which belong to samples

CompileTransforms = Callable[..., ImagePlan]
"""Checks a list of transforms of images, as :func:`compile_image` does for images of a dtype and form."""


@dataclass(frozen=True)
class ImageColumn:
    """An image column: one image of each sample, or V views of each.

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
    ragged: bool = False  # Whether the images, which have different sizes, are a list

    def at(self, size: Size | None) -> ImagePlan:
        """What happens to the images of a batch of ``size``; None for the size that the transforms leave."""
        return self.plan if size is None else self.by_size[size]

    def annotated(
        self,
        dataset: SampleSource,
        names: tuple[str, ...],
        objects: Objects,
        batch_transform_plan: BatchTransformPlan,
    ) -> ImageColumn:
        """The same with the columns of annotations among ``names`` that follow it."""
        bare = tuple(name.removeprefix(self.prefix) for name in names if name.startswith(self.prefix))
        bare = (*bare, *({"label"} & set(names)))  # belongs to no image column, but is checked with each
        annotations = make_annotation_config(dataset, bare, objects, self.plan, batch_transform_plan)
        return replace(self, annotations=annotations)

    def part(self, name: str) -> str | None:
        """What a column of the batch holds of these images; None if it does not belong to them."""
        if name == self.name:
            return "image"
        if not name.startswith(self.prefix):
            return None
        bare = name.removeprefix(self.prefix)
        holds = {"mask": self.mask, IMAGE_SIZE: self.plan.pad_to_multiple_of, TO_SOURCE: True}
        return bare if holds.get(bare, bare in self.annotations.columns) else None

    def samples_of_images(self, n: int) -> Int64:
        """The samples that the images of a batch show, (M,) indices among ``n``."""
        samples = np.arange(n)
        return samples if self.views is None else np.tile(samples, self.views)

    def images_of(self, samples: Int64, n: int) -> Int64:
        """The images of the samples at ``samples``, (K,) indices among ``n``, view by view: (V * K,)."""
        return np.concatenate([view * n + samples for view in range(self.views or 1)])

    def keys(self, keys: Int64) -> Int64:
        """Keys of the random numbers of the images, (M,) int64, from the keys of N samples."""
        # With a single list of transforms, these are the keys of the samples.
        return view_keys(keys, self.name, self.views or 1) if self.prefix else keys

    def to_source(self, params: ImageParams, origins: Origins) -> npt.NDArray[np.float64]:
        """Matrices from the pixels of the images to the pixels of their sources, (M, 3, 3) float64."""
        shown = self.samples_of_images(len(origins.sizes))
        return origins.matrices[shown] @ params.to_source()

    def spec(self, name: str, part: str, image_format: ImageFormat, dataset: SampleSource) -> ColumnSpec:
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
        views = {} if self.views is None else {"views": self.views}
        mask = {"mask": self.mask.to_dict()} if self.mask else {}
        return {**self.plan.to_json(), **views, **mask}


def plan_columns(
    transforms: Transforms,
    compile_transforms: CompileTransforms,
    sizes: Sequence[Size] = (),
    padding: Padded | Ragged | None = None,
) -> tuple[tuple[ImageColumn, ...], BatchTransformPlan]:
    """Check a loader's transforms, and plan its image columns, without annotations."""
    if not isinstance(transforms, Mapping):
        column, batch_transform_plan = _single_column(transforms, compile_transforms, sizes, padding)
        return (column,), batch_transform_plan
    if sizes or padding:
        raise ConfigError(
            "sizes needs a single list of transforms, found named image columns",
            hint="Leave sizes out: each list of a mapping has a size of its own.",
        )
    if not transforms:
        raise ConfigError("transforms is an empty mapping", hint="Give a list, or views by their names.")
    columns = []
    for name, listed in transforms.items():
        if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
            raise ConfigError(
                f"transforms: {name!r} cannot be the name of a column",
                hint="Choose a Python identifier without a leading underscore, such as 'large'.",
            )
        try:
            columns.append(_named_column(name, listed, compile_transforms))
        except ConfigError as error:
            raise ConfigError(f"{name!r}: {error.message}", hint=error.hint) from None
    first = columns[0]
    for column in columns[1:]:
        if column.plan.dtype != first.plan.dtype:
            raise ConfigError(
                f"the images of {first.name!r} are {first.plan.dtype}, and the images of {column.name!r} are "
                f"{column.plan.dtype}; a loader makes one dtype",
                hint=f"Give dtype={first.plan.dtype!r}, or end both in Normalize.",
            )
    return tuple(columns), BatchTransformPlan()


def _single_column(
    transforms: Sequence[AnyTransform],
    compile_transforms: CompileTransforms,
    sizes: Sequence[Size],
    padding: Padded | Ragged | None,
) -> tuple[ImageColumn, BatchTransformPlan]:
    of_images, after = split_transforms(transforms)
    plans = {size: compile_transforms(resized(of_images, size)) for size in sizes}
    largest = max(sizes, key=math.prod, default=None)
    multiple = None
    if padding:
        multiple = 1 if isinstance(padding, Ragged) else padding.pad_to_multiple_of
    plan = plans[largest] if largest else compile_transforms(of_images, pad_to_multiple_of=multiple)
    if plan.dtype == "uint16" and after.transforms:
        raise ConfigError(
            "transforms of batches mix no images of dtype='uint16'", hint="Give dtype='float32'."
        )
    if padding:
        _refuse_batch_transforms(after, "images of different sizes")
    return ImageColumn("image", plan, by_size=plans, ragged=isinstance(padding, Ragged)), after


def _named_column(
    name: str, listed: Sequence[AnyTransform] | Views, compile_transforms: CompileTransforms
) -> ImageColumn:
    views, mask = None, None
    if isinstance(listed, Views):
        views, mask, listed = listed.count, listed.mask, listed.transforms
    of_images, after = split_transforms(listed)
    _refuse_batch_transforms(replace(after, functions=(*after.functions, *after.whole)))
    plan = compile_transforms(of_images)
    for one in plan.combining:
        raise ConfigError(
            f"{type(one).__name__} combines samples, which named image columns cannot do",
            hint="Leave it out, or give the loader one list of transforms to one size.",
        )
    if mask:
        mask.grid(plan.size)
    return ImageColumn(name, plan, views, f"{name}_", mask)


def _refuse_batch_transforms(plan: BatchTransformPlan, what: str = "named image columns") -> None:
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


def column_names(
    columns: Sequence[str] | None,
    images: Sequence[ImageColumn],
    dataset: SampleSource,
    *,
    last_batch: LastBatch,
    objects: Objects,
    arrays: ArrayConfig,
    captions: Captions | None,
    sizes: SizePlan,
) -> tuple[str, ...]:
    """Names of the columns of a batch, in their order, with those that arguments add."""
    of_captions, types = captions.columns if captions else (), dataset.types
    label = ("label",) if "label" in types else ()
    if sizes.patch_planner:
        label = () if "labels" in dataset.tasks else label
        usual = (*PATCH_COLUMNS, *of_captions[: len(PATCH_COLUMNS)], *label)
        names = wanted_columns(columns, usual, last_batch)
        known = {*PATCH_COLUMNS, *of_captions, *label, "row", "mask"}
        _check_known(
            names, known, dataset, " with sizes=Patches(...)", "; other columns can be looked up by row"
        )
        _check_captions(names, captions, dataset)
        return names
    masks = [f"{one.prefix}mask" for one in images if one.mask]
    usual = (*(one.name for one in images), *masks, *of_captions[:1], *label)
    names, annotated = wanted_columns(columns, usual, last_batch), task_columns(dataset)
    for prefix in (one.prefix for one in images):
        follows = {f"{prefix}{name}" for name in set(annotated) - {"segmentation"}}
        if objects.form == "padded" and f"{prefix}count" not in names and follows & set(names):
            names = (*names, f"{prefix}count")
    if isinstance(sizes.padding, Padded) and IMAGE_SIZE not in names and images[0].name in names:
        names = (*names, IMAGE_SIZE)
    names = arrays.with_shapes(names)
    _check_captions(names, captions, dataset)
    of_images = [(one.name, name) for one in images for name in _names_of_images(one, annotated)]
    known = {"row", "mask", SOURCE_SIZE, *arrays.columns, *of_captions, *label}
    known |= {*batchable_columns(dataset.types), *map(shape_column, arrays.columns)}
    for own, name in of_images:
        if name in known and images[0].prefix:
            raise ConfigError(
                f"transforms: {own!r} makes a column {name!r}, and there is such a column already",
                path=dataset.path,
                hint="Choose another name for these images.",
            )
        known.add(name)
    _check_known(names, known, dataset)
    return names


def _names_of_images(column: ImageColumn, annotated: Sequence[str]) -> list[str]:
    follow = [*annotated, *(["count"] if "boxes" in annotated else []), *(["mask"] if column.mask else [])]
    follow += [TO_SOURCE, *([IMAGE_SIZE] if column.plan.pad_to_multiple_of else [])]
    return [column.name, *(f"{column.prefix}{name}" for name in follow)]


def _check_captions(names: Sequence[str], captions: Captions | None, dataset: SampleSource) -> None:
    """Raise ConfigError if captions are in the columns but have no form, or the other way round."""
    if captions and not {CAPTION, f"{CAPTION}_mask", *captions.columns} & set(names):
        raise ConfigError(
            "caption= gives the form of captions, and columns names none",
            hint=f"Add {CAPTION!r} to columns, or leave caption out.",
        )
    if not captions and CAPTION in names and CAPTION not in dataset.types and IDS_COLUMN in dataset.types:
        raise ConfigError(
            f"columns: {CAPTION!r} has token ids, and their form is not given",
            path=dataset.path,
            hint="Give caption=stoker.Tokens(max_length=77).",
        )


def _check_known(
    names: Sequence[str], known: set[str], dataset: SampleSource, where: str = "", more: str = ""
) -> None:
    for name in names:
        if name not in known:
            kind = dataset.types.get(name) if not where else None
            found = f"{name!r} holds {kind}, which no batch has" if kind else f"there is no {name!r}{where}"
            raise ConfigError(
                f"columns: {found}{_only_in_some(name, dataset)}",
                path=dataset.path,
                hint=f"There are {some_of(sorted(known), 20)}{more}.",
            )


def _only_in_some(name: str, dataset: SampleSource) -> str:
    """The part of the message that some datasets of a mixture lack a column; empty for other columns."""
    lacking = [
        one.path
        for one in dataset.datasets
        if name not in one.types and name not in one.arrays and name not in task_columns(one)
    ]
    if not 0 < len(lacking) < len(dataset.datasets):
        return ""
    return f", which {', '.join(map(str, lacking))} lacks; a mixture has the columns that all datasets have"
