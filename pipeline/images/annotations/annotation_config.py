"""The config of annotations: which columns a dataset's annotations make, and in which form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from stoker.augment.plan import ImagePlan
from stoker.augment.steps import Displace
from stoker.errors import ConfigError
from stoker.formats.dataset.annotations import OBJECT_COLUMNS, is_object_column

from ...execution.batch import ColumnSpec
from ...order.sample_source import SampleSource
from ..batch_transforms import BatchTransformPlan
from .objects import EXTRA_PREFIX, ObjectConfig

_Sides = tuple[int | None, int | None]

_BOX_COLUMNS = ("boxes", "box_labels", "crowd", "area", "object_id")
_DTYPES = {
    "boxes": "float32",
    "box_labels": "int64",
    "crowd": "bool",
    "area": "float32",
    "object_id": "int64",
}
_IGNORE = 255
"""The value to ignore if the dataset names none: that of PASCAL VOC, Cityscapes and ADE20K."""
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
    """What a loader makes of the annotations of a column of images, the same in every epoch."""

    objects: ObjectConfig = field(default_factory=ObjectConfig)  # Columns of objects, and their form
    masks: MaskConfig | None = None  # Form of class masks; None if no column is made of them
    needs_boxes: bool = False  # Whether a transform of images decides by boxes
    pastes: bool = False  # Whether a transform of images pastes objects

    @property
    def columns(self) -> frozenset[str]:
        """Names of all columns that annotations make."""
        count = {"count"} if self.objects.columns else set()
        return self.objects.columns | count | ({"segmentation"} if self.masks else set())

    @property
    def is_empty(self) -> bool:
        """Whether neither a column nor a transform needs annotations."""
        return not (self.objects.columns or self.masks or self.needs_boxes or self.pastes)

    def spec(
        self, column: str, name: str, dataset: SampleSource, size: _Sides, views: int | None = None
    ) -> ColumnSpec:
        """Dtype and shape of a column of annotations."""
        if name == "segmentation" and self.masks:
            return ColumnSpec(column, self.masks.dtype, size, views=views)
        if name == "count":
            return ColumnSpec(column, "int64", (), views=views)
        shapes = {"boxes": (4,), "keypoints": (len(dataset.manifest.annotations.keypoints), 3), "masks": size}
        dtypes = {**_DTYPES, "keypoints": "float32", "masks": "uint8"}
        dtype = dtypes.get(name) or _extra_dtype(dataset.types[name])
        shape = (None, *shapes.get(name, ()))
        return ColumnSpec(column, dtype, shape, ragged=self.objects.form == "ragged", views=views)


def task_columns(dataset: SampleSource) -> tuple[str, ...]:
    """Names of the columns that the annotations of a dataset make, without the label."""
    names: list[str] = []
    if "boxes" in dataset.tasks:
        names += _BOX_COLUMNS
        names += [
            name
            for name, arrow_type in dataset.types.items()
            if name.startswith(EXTRA_PREFIX)
            and is_object_column(name, arrow_type)
            and name not in OBJECT_COLUMNS
        ]
        names += ["keypoints"] if "keypoints" in dataset.tasks else []
        names += ["masks"] if "instances" in dataset.tasks else []
    return (*names, *(["segmentation"] if {"segmentation", "instances"} & dataset.tasks else []))


def make_annotation_config(
    dataset: SampleSource,
    columns: tuple[str, ...],
    objects: ObjectConfig,
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
    multi_label = "labels" in dataset.tasks
    if "label" in columns and (multi_label or batch_transform_plan.transforms) and not dataset.num_classes:
        raise ConfigError(
            "labels as shares of classes need the names of the classes, and the dataset has none",
            path=dataset.path,
            hint="Leave the column 'label' out, or convert with classes.",
        )
    followed = annotated | ({"label", "to_source"} & set(columns))
    _check_mixing(followed, batch_transform_plan.transforms, batch_transform_plan.columns)
    combined = [frozenset(one.columns) for one in plan.combining]
    _check_mixing(followed, plan.combining, frozenset.intersection(*combined) if combined else frozenset())
    objects = replace(objects, columns=annotated - {"segmentation"}, swap=info.swap)
    return AnnotationConfig(objects, masks, plan.uses_boxes, plan.pastes)


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
                hint=f"Leave the column out of columns: what can be mixed is {', '.join(sorted(mixed))}.",
            )


def _extra_dtype(arrow_type: str) -> str:
    """NumPy's name of the numbers in an Arrow list, whose type is written ``large_list<item: int64>``."""
    inner = arrow_type.partition("<")[2].rstrip(">").rpartition(" ")[2]
    return {"float": "float32", "double": "float64", "halffloat": "float16"}.get(inner, inner)
