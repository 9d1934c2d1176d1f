"""Pictures of a preview: samples as they are, and as transforms leave them, with their annotations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker.augment.geometry.annotations import transform_mask
from stoker.augment.geometry.boxes import Objects
from stoker.augment.geometry.segments import decode_runs, fill_polygons
from stoker.augment.plan import compile_image
from stoker.augment.reference import reference
from stoker.errors import ConfigError, DecodeError
from stoker.formats.codecs.header import MAX_PIXELS

from ..engines.payload_decode import PayloadError, decode
from ..images.annotations.annotation_processor import decode_mask
from ..images.annotations.objects import BatchObjects, ObjectConfig, transform_objects
from ..images.batch_transforms import split_transforms

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from stoker.augment.batch.base import BatchParams
    from stoker.augment.params.image_params import ImageParams
    from stoker.augment.plan import ImagePlan
    from stoker.augment.recipe import AnyTransform
    from stoker.formats.dataset.columns.annotations import Annotations
    from stoker.formats.dataset.dataset import Dataset

    Array = npt.NDArray[Any]

__all__ = ["Marks", "Picture", "Scene", "draw_pictures", "original_pictures", "read_scene"]

_LEAST_SHARE = 0.05
"""Least share of a class in a mixed label that a caption names."""


@dataclass(frozen=True)
class Marks:
    """Annotations of one picture, in its pixels.

    Attributes:
        labels: (M,) int64, class of each object.
        crowd: (M,) bool, whether each object stands for a crowd.
        boxes: (M, 4) float64 XYXY.
        keypoints: (M, K, 3), x, y and visibility; or None.
        masks: (M, H, W) uint8, 1 inside of each object; or None.
        segmentation: (H, W) integers, class of each pixel; or None.
    """

    labels: Array
    crowd: Array
    boxes: Array
    keypoints: Array | None = None
    masks: Array | None = None
    segmentation: Array | None = None


@dataclass(frozen=True)
class Picture:
    """An image to show: its pixels, (H, W, 3) uint8, its annotations, and the lines below it."""

    pixels: npt.NDArray[np.uint8]
    marks: Marks
    caption: tuple[str, ...]


@dataclass(frozen=True)
class Scene:
    """N samples of a dataset, decoded, with their annotations.

    Attributes:
        dataset: Dataset of the samples.
        positions: (N,) int64, positions of the samples in the dataset.
        pixels: N images, (H, W, 3) uint8.
        annotations: Objects of the samples.
        labels: (N, C) float32, share of each class; None if samples have no labels.
        segmentation: N masks, (H, W) integers; None if there are none.
    """

    dataset: Dataset
    positions: npt.NDArray[np.int64]
    pixels: list[npt.NDArray[np.uint8]]
    annotations: Annotations
    labels: npt.NDArray[np.float32] | None
    segmentation: list[Array] | None

    @property
    def sizes(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Heights and widths, (N,) each."""
        heights, widths = ([image.shape[axis] for image in self.pixels] for axis in (0, 1))
        return np.array(heights, np.int64), np.array(widths, np.int64)

    def class_name(self, label: int) -> str:
        """Name of a class, or "class" and its number."""
        classes = self.dataset.classes
        return classes[label] if 0 <= label < len(classes) else f"class {label}"


@dataclass(frozen=True)
class _Batch:
    """N images of one size, after the transforms of images and some of those of batches.

    Attributes:
        images: (N, H, W, 3) float32 in 0..255.
        objects: Objects of all images.
        labels: (N, C) float32, or None.
        segmentation: (N, H, W) integers, or None.
    """

    images: Array
    objects: BatchObjects
    labels: Array | None
    segmentation: Array | None

    @property
    def columns(self) -> frozenset[str]:
        """Columns that transforms of batches must be able to mix."""
        columns = {"label": self.labels, "segmentation": self.segmentation}
        return frozenset({name for name, column in columns.items() if column is not None}) | (
            self.objects.columns.keys() & {"boxes", "keypoints", "masks"} if len(self.objects) else set()
        )

    def mixed(self, params: BatchParams, config: ObjectConfig) -> _Batch:
        """The batch after a transform of batches."""
        return _Batch(
            params.images(self.images, "NHWC"),
            self.objects.mixed(params, config) if len(self.objects) else self.objects,
            None if self.labels is None else params.labels(self.labels, self.labels.shape[1]),
            None if self.segmentation is None else params.segmentation(self.segmentation),
        )


def read_scene(dataset: Dataset, positions: npt.NDArray[np.int64]) -> Scene:
    """Read and decode samples with all their annotations.

    Raises:
        SampleError: A sample cannot be read or decoded; names it.
    """
    annotations = dataset.annotations(positions)
    pixels = [_decode(dataset, position) for position in positions.tolist()]
    masks = None
    if "segmentation" in dataset.tasks:
        sizes = [image.shape[:2] for image in pixels]
        masks = [_decode_mask(dataset, *one) for one in zip(positions.tolist(), sizes, strict=True)]
    return Scene(dataset, positions, pixels, annotations, _labels(dataset, positions), masks)


def original_pictures(scene: Scene) -> list[Picture]:
    """Pictures of the samples as they are."""
    annotations, pictures = scene.annotations, []
    keys = scene.dataset.keys(scene.positions)
    for i, (image, key) in enumerate(zip(scene.pixels, keys, strict=True)):
        mine = annotations.take(annotations.owner == i)
        height, width = image.shape[:2]
        marks = Marks(
            mine.labels,
            mine.crowd,
            mine.boxes.astype(np.float64),
            mine.keypoints,
            _whole_masks(mine, (height, width)),
            scene.segmentation[i] if scene.segmentation else None,
        )
        caption = (*_label_lines(scene, scene.labels, i), key, f"{width} x {height}")
        pictures.append(Picture(image, marks, caption))
    return pictures


def draw_pictures(scene: Scene, transforms: Sequence[AnyTransform], seed: int, epoch: int) -> list[Picture]:
    """Pictures of the samples after their transforms in an epoch; transforms of batches mix all of them.

    Raises:
        ConfigError: The transforms are wrong, or a transform of batches cannot mix what the samples have.
    """
    single, together = split_transforms(transforms)
    plan = compile_image(single, "float32")
    rows = scene.dataset.rows[scene.positions]
    objects = Objects(scene.annotations.boxes.astype(np.float64), scene.annotations.owner)
    params = plan.draw(*scene.sizes, rows, seed, epoch, objects=objects)
    config = _object_config(scene)
    batch = _execute(scene, plan, params, config)
    for number, transform in enumerate(together.transforms):
        lost = batch.columns - together.columns
        if lost:
            names = " and ".join(sorted(lost))
            raise ConfigError(
                f"{type(transform).__name__} cannot mix {names}, which the samples have",
                hint="Leave it out of the recipe.",
            )
        _, decided = together.draw(number, rows, plan.size, seed, epoch)
        batch = batch.mixed(decided, config)
    return [_picture(scene, batch, i, mixed=bool(together.transforms)) for i in range(len(rows))]


def _decode(dataset: Dataset, position: int) -> npt.NDArray[np.uint8]:
    samples = dataset.samples([position])
    data = dataset.read(position)
    try:
        return decode(data, samples, 0, max_pixels=MAX_PIXELS, reference=True)
    except PayloadError as error:
        raise dataset.error(position, f"the image cannot be decoded: {error}", DecodeError) from error


def _decode_mask(dataset: Dataset, position: int, size: tuple[int, int]) -> Array:
    data = dataset.mask(position)
    try:
        return decode_mask(data, size, "int64")
    except Exception as error:  # Pillow's parsers raise almost anything on damaged data
        raise dataset.error(position, f"the mask cannot be decoded: {error}", DecodeError) from error


def _labels(dataset: Dataset, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.float32] | None:
    if "labels" in dataset.tasks:
        lists = dataset.lists("label", positions)
        rows, labels = np.repeat(np.arange(len(positions)), lists.counts), lists.values
    elif "label" in dataset.tasks:
        rows, labels = np.arange(len(positions)), dataset.labels[positions]
    else:
        return None
    shares = np.zeros((len(positions), max(dataset.num_classes, labels.max(initial=-1) + 1)), np.float32)
    known = labels >= 0  # a negative label says that there is none
    shares[rows[known], labels[known]] = 1
    return shares


def _whole_masks(objects: Annotations, size: tuple[int, int]) -> npt.NDArray[np.uint8] | None:
    if objects.polygons is None and objects.runs is None:
        return None
    masks = np.zeros((len(objects), *size), np.uint8)
    for k in range(len(objects)):
        if objects.polygons is not None:
            masks[k] |= fill_polygons(objects.polygons[k], size)
        if objects.runs is not None and len(objects.runs[k]):
            masks[k] |= decode_runs(objects.runs[k], size)
    return masks


def _object_config(scene: Scene) -> ObjectConfig:
    """Columns of objects that are drawn."""
    found = scene.annotations
    columns = {"box_labels", "crowd"} | ({"keypoints"} if found.keypoints is not None else set())
    columns |= {"masks"} if found.polygons is not None or found.runs is not None else set()
    return ObjectConfig(frozenset(columns), swap=scene.dataset.manifest.annotations.swap)


def _execute(scene: Scene, plan: ImagePlan, params: ImageParams, config: ObjectConfig) -> _Batch:
    """The batch of images and annotations after the transforms of images."""
    n = len(params)
    values = np.stack([reference.execute(params, i, scene.pixels[i], "float32", "NHWC") for i in range(n)])
    scale, shift = plan.form.matrix[:, :3].diagonal(), plan.form.matrix[:, 3]
    objects = transform_objects(scene.annotations, params, *scene.sizes, config)
    segmentation = None
    if scene.segmentation is not None:
        ignore = scene.dataset.manifest.annotations.ignore
        masks = enumerate(scene.segmentation)
        segmentation = np.stack(
            [transform_mask(params, i, m, 255 if ignore is None else ignore) for i, m in masks]
        )
    return _Batch(((values - shift) / scale).astype(np.float32), objects, scene.labels, segmentation)


def _picture(scene: Scene, batch: _Batch, i: int, *, mixed: bool) -> Picture:
    mine = batch.objects.owner == i
    columns = {name: values[mine] for name, values in batch.objects.columns.items()}
    marks = Marks(
        columns["box_labels"],
        columns["crowd"],
        columns["boxes"],
        columns.get("keypoints"),
        columns.get("masks"),
        None if batch.segmentation is None else batch.segmentation[i],
    )
    pixels = np.floor(batch.images[i].clip(0, 255) + 0.5).astype(np.uint8)
    caption = _label_lines(scene, batch.labels, i) if mixed else ()
    if len(scene.annotations):
        there = np.count_nonzero(scene.annotations.owner == i)
        caption = (*caption, f"{mine.sum()} objects" if mixed else f"{mine.sum()} of {there} objects")
    return Picture(pixels, marks, caption)


def _label_lines(scene: Scene, labels: Array | None, i: int) -> tuple[str, ...]:
    """Lines that name the classes of a sample; one for each class and its share if the sample is mixed."""
    if labels is None:
        return ()
    ranked = np.argsort(-labels[i], kind="stable").tolist()
    shown = [label for label in ranked if labels[i, label] >= _LEAST_SHARE]
    if all(labels[i, label] == 1 for label in shown):
        return (", ".join(map(scene.class_name, shown)),) if shown else ()
    return tuple(f"{scene.class_name(label)} {labels[i, label]:.2f}" for label in shown)
