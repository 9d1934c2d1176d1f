"""Annotations of image batches: the columns that they make, under the transforms of their images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.arguments import some_of
from stoker.augment.batch import MixParams
from stoker.augment.geometry.annotations import displace_masks, transform_mask
from stoker.augment.geometry.masks import decode_runs, fill_polygons
from stoker.augment.params import Composition, ImageParams
from stoker.augment.plan import ImagePlan
from stoker.augment.steps import Displace
from stoker.errors import ConfigError, DecodeError, SampleError
from stoker.formats.dataset.annotations import OBJECT_COLUMNS, Annotations, is_object_column
from stoker.formats.dataset.index import Samples
from stoker.formats.files import NO_MEMORY, storage_error
from stoker.types import Layout

from ..engines.base import AGAIN
from ..execution.pipeline import ColumnSpec
from ..options import Objects
from ..order.sampling import SampleSource
from .batch_transforms import BatchTransformPlan
from .objects import (
    EXTRA_PREFIX,
    BatchObjects,
    MaskMemory,
    ObjectConfig,
    bad_polygons,
    bad_runs,
    draw_class_masks,
    draw_segments,
    transform_below_pasted,
    transform_objects,
    with_pasted_masks,
)

_BAD_RUNS = "the run lengths of a mask do not have the size of its image"
_BAD_POLYGON = "a polygon has a vertex that is not finite"

Int64 = npt.NDArray[np.int64]
Ints = npt.NDArray[np.integer[Any]]
Mask = npt.NDArray[np.integer[Any]]

_BOX_COLUMNS = {
    "boxes": "float32",
    "box_labels": "int64",
    "crowd": "bool",
    "area": "float32",
    "object_id": "int64",
}
"""Columns of objects that all datasets with boxes have, and their dtypes."""
_MOST_CLASSES = 1_000_000  # of a row of shares; larger labels are numbers of other things
_IGNORE = 255
"""The value to ignore if the dataset names none: PASCAL VOC, Cityscapes and ADE20K have it."""
_IGNORE_OF_MANY = 65535
"""The value to ignore in masks drawn from objects of more classes than 8 bits can hold."""


@dataclass(frozen=True)
class MaskConfig:
    """Form of class masks."""

    dtype: str  # "uint8", or "int64" if the classes need it
    ignore: int  # Value of pixels that show nothing of the source
    from_objects: bool = False  # Whether they are drawn from polygons and run lengths, and not stored


@dataclass(frozen=True)
class AnnotationConfig:
    """What a loader makes of the annotations of an image column, the same in every epoch."""

    objects: ObjectConfig = field(default_factory=ObjectConfig)  # Columns of objects, and their form
    masks: MaskConfig | None = None  # Form of class masks; None if no column is made of them
    needs_boxes: bool = False  # Whether a transform of images decides by boxes
    pastes: bool = False  # Whether a transform of images pastes objects

    @property
    def columns(self) -> frozenset[str]:
        count = {"count"} if self.objects.columns else set()
        return self.objects.columns | count | ({"segmentation"} if self.masks else set())

    @property
    def is_empty(self) -> bool:
        return not (self.objects.columns or self.masks or self.needs_boxes or self.pastes)

    def spec(
        self,
        column: str,
        name: str,
        dataset: SampleSource,
        size: tuple[int | None, int | None],
        views: int | None = None,
    ) -> ColumnSpec:
        if name == "segmentation" and self.masks:
            return ColumnSpec(column, self.masks.dtype, size, views=views)
        if name == "count":
            return ColumnSpec(column, "int64", (), views=views)
        points = (len(dataset.manifest.annotations.keypoints), 3)
        shapes = {"boxes": (4,), "corners": (4, 2), "keypoints": points, "masks": size}
        dtypes = {**_BOX_COLUMNS, "corners": "float32", "keypoints": "float32", "masks": "uint8"}
        dtype = dtypes.get(name) or _extra_dtype(dataset.types[name])
        shape = (None, *shapes.get(name, ()))
        return ColumnSpec(column, dtype, shape, ragged=self.objects.form == "ragged", views=views)


def task_columns(dataset: SampleSource) -> tuple[str, ...]:
    """Names of the columns that the annotations of a dataset make, without the label."""
    names: list[str] = []
    if "boxes" in dataset.tasks:
        own = [name for name, kind in dataset.types.items() if is_object_column(name, kind)]
        names += _BOX_COLUMNS
        names += [name for name in own if name.startswith(EXTRA_PREFIX) and name not in OBJECT_COLUMNS]
        names += ["corners"] if "object_corners" in dataset.types else []
        names += ["keypoints"] if "keypoints" in dataset.tasks else []
        names += ["masks"] if "instances" in dataset.tasks else []
    return (*names, *(["segmentation"] if {"segmentation", "instances"} & dataset.tasks else []))


def make_annotation_config(
    dataset: SampleSource,
    columns: tuple[str, ...],
    objects: Objects,
    plan: ImagePlan,
    batch_transform_plan: BatchTransformPlan,
) -> AnnotationConfig:
    """Check the columns of annotations that follow images against the dataset and the transforms."""
    info = dataset.manifest.annotations
    annotated = frozenset(columns) & frozenset(task_columns(dataset))
    masks = _mask_config(dataset) if "segmentation" in annotated else None
    if plan.uses_boxes and "boxes" not in dataset.tasks:
        raise ConfigError(
            "a transform decides by boxes, and the dataset has none",
            path=dataset.path,
            hint="Leave the transform out, or convert with annotations.",
        )
    if plan.pastes and "instances" not in dataset.tasks:
        raise ConfigError(
            "CopyPaste pastes objects by their masks, and the dataset has none",
            path=dataset.path,
            hint="Leave it out, or convert with polygons or run lengths, as COCO has them.",
        )
    if "to_source" in columns and Displace.__name__ in plan.needs:
        raise ConfigError(
            "the column 'to_source' holds matrices, which cannot express ElasticTransform",
            hint="Leave one of the two out. The way back is for evaluation, which has no random transforms.",
        )
    have_shares = "label" in columns and ("labels" in dataset.tasks or bool(batch_transform_plan.transforms))
    if have_shares and not 0 < dataset.num_classes <= _MOST_CLASSES:
        raise ConfigError(
            f"labels as shares of classes need 1 to {_MOST_CLASSES:,} classes, and the dataset has "
            f"{dataset.num_classes:,}",
            path=dataset.path,
            hint="Leave the column 'label' out, or convert with labels that number the classes from 0.",
        )
    followed = annotated | ({"label", "to_source"} & set(columns))
    _check_mixing(followed, batch_transform_plan.transforms, batch_transform_plan.columns)
    combined = [frozenset(one.columns) for one in plan.combining]
    _check_mixing(followed, plan.combining, frozenset.intersection(*combined) if combined else frozenset())
    number = len(info.keypoints)
    if objects.swap and sorted(objects.swap) != list(range(number)):
        raise ConfigError(
            f"swap must name each of the {number} keypoints of the dataset once, found {list(objects.swap)}"
        )
    form = ObjectConfig(
        **{**vars(objects), "swap": objects.swap or info.swap}, columns=annotated - {"segmentation"}
    )
    return AnnotationConfig(form, masks, plan.uses_boxes, plan.pastes)


def _mask_config(dataset: SampleSource) -> MaskConfig:
    """Form of class masks: those that are stored, otherwise those that objects make."""
    info = dataset.manifest.annotations
    if "segmentation" in dataset.tasks:
        ignore = _IGNORE if info.ignore is None else info.ignore
        return MaskConfig("uint8" if max(ignore, len(info.mask_classes) - 1) < 256 else "int64", ignore)
    if not dataset.num_classes:
        raise ConfigError(
            "class masks drawn from objects need the names of the classes, and the dataset has none",
            path=dataset.path,
            hint="Leave the column 'segmentation' out, or convert with classes.",
        )
    many = dataset.num_classes >= _IGNORE  # classes count from 1
    return MaskConfig("int64" if many else "uint8", _IGNORE_OF_MANY if many else _IGNORE, from_objects=True)


def _check_mixing(columns: frozenset[str], transforms: Sequence[object], mixed: frozenset[str]) -> None:
    """Raise ConfigError if transforms that mix samples cannot do so with a column."""
    if not transforms:
        return
    kinds = {"label", "keypoints", "masks", "segmentation", "to_source"}
    for name in sorted(columns):
        if (name if name in kinds else "boxes") not in mixed:
            names = ", ".join(type(transform).__name__ for transform in transforms)
            raise ConfigError(
                f"{names} cannot mix the column {name!r}",
                hint=f"Leave the column out of columns: what can be mixed is {some_of(sorted(mixed))}.",
            )


def _extra_dtype(arrow_type: str) -> str:
    """NumPy's name of the numbers in an Arrow list, whose type is written ``large_list<item: int64>``."""
    inner = arrow_type.partition("<")[2].rstrip(">").rpartition(" ")[2]
    return {"float": "float32", "double": "float64", "halffloat": "float16"}.get(inner, inner)


@dataclass(frozen=True, eq=False)
class ImageContents:
    """The M images of a column of a batch, and what follows their transforms; None if no column needs it."""

    objects: BatchObjects | None = None  # Objects of all images
    masks: Mask | None = None  # (M, H, W), class masks, zeros for an image with an error
    errors: dict[int, SampleError] = field(default_factory=dict)  # In annotations, by index of the image
    images: Any = None  # (M, ...) of NumPy, or on a GPU of the framework
    patches: npt.NDArray[np.bool_] | None = None  # (M, rows, columns), patches to hide
    to_source: npt.NDArray[np.float64] | None = None  # (M, 3, 3), from images to their sources, in pixels
    # (M, 2), heights and widths of the images; None where all fill their array
    image_size: npt.NDArray[np.int32] | None = None

    def of_images(self, chosen: Int64, n: int, take: Callable[[Any, Int64], Any]) -> ImageContents:
        """The contents of the images at ``chosen``, (K,) indices among ``n``; ``take`` takes of images."""
        arrays = {name: getattr(self, name) for name in ("masks", "patches", "to_source", "image_size")}
        kept = {name: array[chosen] for name, array in arrays.items() if array is not None}
        objects = self.objects and self.objects.of_samples(chosen, n)
        return replace(self, images=take(self.images, chosen), objects=objects, **kept)

    def mixed(self, params: MixParams, mix: Callable[..., Any], layout: Layout) -> ImageContents:
        """The images after a transform of batches; ``mix`` applies its parameters to them."""
        masks = None if self.masks is None else params.segmentation(self.masks)
        return replace(self, images=mix(params, self.images, layout), masks=masks)


class AnnotationProcessor:
    """Reads, decodes and transforms the annotations of samples, one batch on each of its threads."""

    def __init__(self, dataset: SampleSource, config: AnnotationConfig, num_threads: int) -> None:
        self._dataset = dataset
        self._config = config
        columns = config.objects.columns
        self._draws_classes = config.masks is not None and config.masks.from_objects
        self._draws = self._draws_classes or config.pastes or "masks" in columns
        self._reads = bool(config.needs_boxes or config.pastes or columns or self._draws_classes)
        self._parts = columns & {"keypoints"}
        if self._reads and "object_corners" in dataset.types:  # they decide what boxes are, too
            self._parts |= {"corners"}
        if any(name.startswith(EXTRA_PREFIX) for name in columns - {"object_id"}):
            self._parts |= {"extra"}
        if self._draws:
            self._parts |= {"polygons", "runs"}
        self._memory = MaskMemory()
        self._pool = ThreadPoolExecutor(num_threads, "stoker-annotations")

    def read(self, positions: Int64) -> Annotations | None:
        """Objects of samples; None if neither a column nor a transform needs them."""
        # positions (N,) int64
        return self._dataset.annotations(positions, self._parts) if self._reads else None

    def pasted(
        self, positions: Int64, samples: Samples, params: ImageParams, annotations: Annotations | None
    ) -> ImageParams:
        """The parameters with the masks of the objects that a transform pastes; see :meth:`start`."""
        # Objects of samples with errors are left out: :meth:`start` finds these errors, too.
        if not self._config.pastes or annotations is None:
            return params
        sound, _ = self._sound(positions, samples, annotations)
        size, config = (samples.height, samples.width), self._config.objects
        return with_pasted_masks(params, sound, *size, config=config, memory=self._memory)

    def start(
        self, positions: Int64, samples: Samples, params: ImageParams, annotations: Annotations | None
    ) -> Callable[[], ImageContents]:
        """Start to transform the annotations of a batch; those with masks on a thread."""
        # positions (N,) int64
        if not (self._draws or self._config.masks):
            # The work on a few hundred numbers takes less time than a thread needs to get the interpreter.
            annotated = self._annotate(positions, samples, params, annotations)
            return lambda: annotated
        return self._pool.submit(self._annotate, positions, samples, params, annotations).result

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _annotate(
        self, positions: Int64, samples: Samples, params: ImageParams, annotations: Annotations | None
    ) -> ImageContents:
        errors: dict[int, SampleError] = {}
        objects = masks = None
        config, size = self._config, (samples.height, samples.width)
        if annotations is not None and self._draws:
            annotations, errors = self._sound(positions, samples, annotations)
        if annotations is not None and config.objects.columns:
            transform = transform_below_pasted if config.pastes else transform_objects
            objects = transform(annotations, params, *size, config.objects, memory=self._memory)
        if config.masks is not None and annotations is not None and self._draws_classes:
            masks = draw_classes(annotations, params, size, config.masks, self._memory)
            masks[list(errors)] = 0
        elif config.masks is not None:
            masks = self._draw_masks(config.masks, positions, samples, params, errors)
        contents = ImageContents(objects, masks, errors)
        if params.composition is None:
            return contents
        return _composed(contents, params.composition, config.masks.ignore if config.masks else 0)

    def _draw_masks(
        self,
        config: MaskConfig,
        positions: Int64,
        samples: Samples,
        params: ImageParams,
        errors: dict[int, SampleError],
    ) -> Mask:
        """Class masks, (N, H, W); errors of single masks are added to ``errors``."""
        masks = np.zeros((len(positions), *params.size), config.dtype)
        files = [self._read_mask(position) for position in positions.tolist()]
        others: Iterable[int] = range(len(files))
        if masks.dtype == np.uint8:  # which C++ draws
            data = [b"" if isinstance(file, SampleError) else file for file in files]
            sizes = samples.height, samples.width
            others = draw_class_masks(params, data, *sizes, ignore=config.ignore, out=masks)
        for i in others:
            file, size = files[i], (int(samples.height[i]), int(samples.width[i]))
            if isinstance(file, SampleError):
                errors[i] = file
                continue
            try:
                mask = decode_mask(file, size, config.dtype)
            except MemoryError:
                raise storage_error(NO_MEMORY, self._dataset.path, hint=AGAIN) from None
            except Exception as error:  # Pillow's parsers raise almost anything on damaged data
                message = f"the mask cannot be decoded: {error}"
                errors[i] = self._dataset.error(int(positions[i]), message, DecodeError)
            else:
                masks[i] = transform_mask(params, i, mask, config.ignore)
        return displace_masks(params, masks, np.arange(len(masks)), config.ignore)

    def _sound(
        self, positions: Int64, samples: Samples, annotations: Annotations
    ) -> tuple[Annotations, dict[int, SampleError]]:
        """The annotations of samples with possible polygons and run lengths, and the errors of others."""
        pixels = samples.height.astype(np.int64) * samples.width
        runs = bad_runs(annotations.runs or (), pixels[annotations.owner])
        errors = dict.fromkeys(annotations.owner[runs].tolist(), _BAD_RUNS)
        polygons = bad_polygons(annotations.polygons or ())
        errors |= dict.fromkeys(annotations.owner[polygons].tolist(), _BAD_POLYGON)
        if not errors:
            return annotations, {}
        sound = annotations.take(~np.isin(annotations.owner, list(errors)))
        return sound, {i: self._dataset.error(int(positions[i]), what) for i, what in errors.items()}

    def _read_mask(self, position: int) -> bytes | SampleError:
        """File of one sample's mask, or the error that it raised."""
        try:
            return self._dataset.mask(position)
        except SampleError as error:
            return error


def _composed(parts: ImageContents, composition: Composition, ignore: int) -> ImageContents:
    """The annotations of N images, from the annotations of their P parts, in order."""
    objects, masks, errors = parts.objects, None, dict[int, SampleError]()
    if objects is not None:
        objects = BatchObjects(composition.image[objects.owner].astype(np.int64), objects.columns)
    for part in sorted(parts.errors):
        errors.setdefault(int(composition.image[part]), parts.errors[part])
    if parts.masks is not None:
        # Parts of one layer have no pixel in common, and are ``ignore`` where they show nothing.
        masks = np.full((composition.count, *parts.masks.shape[1:]), ignore, parts.masks.dtype)
        for part in np.flatnonzero(composition.shown).tolist():
            shows = parts.masks[part] != ignore
            np.copyto(masks[composition.image[part]], parts.masks[part], where=shows)
    return ImageContents(objects, masks, errors)


# Pillow's modes in which a pixel is one number. In a palette, it is the number of an entry.
_MODES = ("1", "L", "P", "I;16", "I")


def decode_mask(data: bytes, size: tuple[int, int], dtype: str) -> Mask:
    """Decode a mask, (H, W), of an image of ``size``, height and width."""
    from stoker.formats.codecs.header import open_mask

    with open_mask(data) as image:
        if (image.height, image.width) != size:  # read from the header
            raise ValueError(f"it has {image.height} x {image.width} pixels, its image {size[0]} x {size[1]}")
        if image.mode not in _MODES:
            raise ValueError(f"it has Pillow's mode {image.mode}, and a pixel of a mask is one number")
        mask = np.asarray(image)
    if int(mask.max(initial=0)) > np.iinfo(dtype).max:
        raise ValueError(
            f"it holds the value {mask.max()}, and the loader returns masks of this dataset as {dtype}; "
            "convert it with ignore_index=65535, or with the names of all classes in classes.txt, for int64"
        )
    return mask.astype(dtype)


_AT_ONCE = 64  # objects: the mask of an object has as many bytes as an output has pixels


def draw_classes(
    annotations: Annotations,
    params: ImageParams,
    sizes: tuple[Ints, Ints],
    config: MaskConfig,
    memory: MaskMemory,
) -> Mask:
    """Class masks of images after their transforms, drawn from their objects: (N, H, W)."""
    # The rule follows ``ConvertCocoPolysToMask`` in torchvision's references for segmentation, which train
    # DeepLab on COCO: a pixel has the class of the only object that covers it, and the value to ignore if
    # several objects cover it. Here crowds are also ignored, and so are boxes of objects without an outline.
    # sizes: (N,) heights and (N,) widths
    masks: Mask = np.full((len(params), *params.size), config.ignore, config.dtype)
    annotations = _boxes_as_crowds(annotations)
    if params.border is not None:  # padding that continues the image shows objects again
        for i, size in enumerate(zip(*(one.tolist() for one in sizes), strict=True)):
            masks[i] = transform_mask(params, i, _draw_source(annotations, i, size, config), config.ignore)
        return displace_masks(params, masks, np.arange(len(masks)), config.ignore)
    whole = [[np.array([(0, 0), (w, 0), (w, h), (0, h)])] for h, w in zip(*sizes, strict=True)]
    shown = draw_segments(params, np.arange(len(params)), *sizes, polygons=whole, memory=memory)
    np.copyto(masks, 0, where=shown.view(np.bool_))
    for start in range(0, len(annotations), _AT_ONCE):
        part = annotations.take(np.arange(start, min(start + _AT_ONCE, len(annotations))))
        drawn = draw_segments(
            params, part.owner, *sizes, polygons=part.polygons, runs=part.runs, memory=memory
        )
        for covered, i, value in zip(drawn, part.owner.tolist(), _values(part, config.ignore), strict=True):
            _add(masks[i], covered.view(np.bool_), value, config.ignore)
    return displace_masks(params, masks, np.arange(len(masks)), config.ignore)


def _boxes_as_crowds(annotations: Annotations) -> Annotations:
    """Annotations in which an object without an outline is a crowd that fills its box."""
    bare = np.flatnonzero(~annotations.has_mask)
    if not len(bare):
        return annotations
    crowd, polygons = annotations.crowd.copy(), list(annotations.polygons or [[] for _ in annotations.owner])
    crowd[bare] = True
    for at in bare.tolist():
        left, top, right, bottom = annotations.boxes[at]
        polygons[at] = [np.array([(left, top), (right, top), (right, bottom), (left, bottom)])]
    return replace(annotations, crowd=crowd, polygons=polygons)


def _draw_source(annotations: Annotations, i: int, size: tuple[int, int], config: MaskConfig) -> Mask:
    """The class mask of sample ``i``, of the ``size`` of its source."""
    part = annotations.take(annotations.owner == i)
    mask: Mask = np.zeros(size, config.dtype)
    for k, value in enumerate(_values(part, config.ignore)):
        covered = fill_polygons(part.polygons[k] if part.polygons else [], size)
        if part.runs and len(part.runs[k]):
            covered |= decode_runs(part.runs[k], size)
        _add(mask, covered.view(np.bool_), value, config.ignore)
    return mask


def _values(objects: Annotations, ignore: int) -> list[int]:
    values: list[int] = np.where(objects.crowd, ignore, objects.labels + 1).tolist()
    return values


def _add(mask: Mask, covered: npt.NDArray[np.bool_], value: int, ignore: int) -> None:
    """Draw an object into a mask; ``covered`` says where it lies."""
    again = covered & (mask != 0)
    np.copyto(mask, value, where=covered)
    np.copyto(mask, ignore, where=again)
