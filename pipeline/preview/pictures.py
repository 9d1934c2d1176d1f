"""Pictures of a preview: samples with their annotations, before and after transforms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.augment import reference
from stoker.augment.batch import MixParams
from stoker.augment.geometry.annotations import displace_masks, transform_mask
from stoker.augment.geometry.masks import decode_runs, fill_polygons
from stoker.augment.params import ImageParams
from stoker.augment.plan import ImagePlan, compile_image
from stoker.augment.recipe import AnyTransform
from stoker.augment.reference import compose
from stoker.augment.transforms.combining import Partners
from stoker.errors import ConfigError
from stoker.formats.dataset.annotations import Annotations

from ..images.annotations import composed_masks, composed_objects
from ..images.batch_transforms import split_transforms
from ..images.columns import ImageColumn
from ..images.objects import (
    BatchObjects,
    ObjectConfig,
    covered_objects,
    deciding_objects,
    remaining,
    transform_objects,
    with_pasted_masks,
)
from .scene import Scene, class_name

Array = npt.NDArray[Any]

_LEAST_SHARE = 0.05
"""Least share of a class in a mixed label that a caption names."""


@dataclass(frozen=True)
class Marks:
    """Annotations of one picture, in its pixels."""

    labels: Array  # (M,) int64, class of each object
    crowd: Array  # (M,) bool, whether each object stands for a crowd
    boxes: Array  # (M, 4) float64 XYXY
    keypoints: Array | None = None  # (M, K, 3), x, y and visibility; or None
    masks: Array | None = None  # (M, H, W) uint8, 1 inside each object; or None
    segmentation: Array | None = None  # (H, W) integers, class of each pixel; or None


@dataclass(frozen=True)
class Picture:
    """An image to show: its pixels, (H, W, 3) uint8, its annotations, and the lines below it."""

    pixels: npt.NDArray[np.uint8]
    marks: Marks
    caption: tuple[str, ...]


@dataclass(frozen=True)
class _Batch:
    """N images of one size, after the transforms of images and some of those of batches."""

    images: Array  # (N, H, W, 3) float32 in 0..255
    objects: BatchObjects  # Objects of all images
    labels: Array | None  # (N, C) float32, or None
    segmentation: Array | None  # (N, H, W) integers, or None

    @property
    def columns(self) -> frozenset[str]:
        """Columns that transforms of batches must be able to mix."""
        columns = {"label": self.labels, "segmentation": self.segmentation}
        present = {name for name, column in columns.items() if column is not None}
        if len(self.objects):
            present |= self.objects.columns.keys() & {"boxes", "keypoints", "masks"}
        return frozenset(present)

    def mixed(self, params: MixParams) -> _Batch:
        """The batch after a transform of batches."""
        return _Batch(
            params.images(self.images, "NHWC"),
            self.objects,
            None if self.labels is None else params.labels(self.labels, self.labels.shape[1]),
            None if self.segmentation is None else params.segmentation(self.segmentation),
        )


def original_pictures(scene: Scene) -> list[Picture]:
    """Pictures of the samples before transforms."""
    annotations, pictures = scene.annotations, []
    keys = scene.dataset.keys(scene.positions)
    for i, (image, key) in enumerate(zip(scene.pixels, keys, strict=True)):
        objects = annotations.take(annotations.owner == i)
        height, width = image.shape[:2]
        marks = Marks(
            objects.labels,
            objects.crowd,
            objects.boxes.astype(np.float64),
            objects.keypoints,
            _whole_masks(objects, (height, width)),
            scene.segmentation[i] if scene.segmentation else None,
        )
        caption = (*_label_lines(scene, scene.labels, i), key, f"{width} x {height}")
        pictures.append(Picture(image, marks, caption))
    return pictures


def draw_pictures(
    scene: Scene, transforms: Sequence[AnyTransform], seed: int, epoch: int, rules: ObjectConfig | None = None
) -> list[Picture]:
    """Return pictures of the samples after their transforms in an epoch.

    Transforms of batches mix all of them, and transforms that combine samples choose partners among them.
    ``rules`` say which objects are dropped; None drops only invisible ones.
    """
    single, together = split_transforms(transforms)
    plan = compile_image(single, "float32")
    rows = scene.dataset.rows[scene.positions]
    config = _object_config(scene)
    if rules is not None:
        config = replace(config, min_visible=rules.min_visible, min_size=rules.min_size)
    parts, shown = None, scene
    if plan.combining:
        parts = plan.parts(rows, np.arange(len(rows)), Partners(len(rows), seed, epoch, epoch))
        shown = scene.of_parts(parts.draw)
    objects = deciding_objects(shown.annotations)
    keys = rows if parts is None else parts.image_keys
    params = plan.draw(*shown.sizes, keys, seed, epoch, objects=objects, parts=parts)
    if plan.pastes:
        params = with_pasted_masks(params, shown.annotations, *shown.sizes, config=config)
        kept = remaining(params, shown.annotations, config)
        shown = replace(shown, annotations=shown.annotations.take(kept))
    batch = _execute(shown, plan, params, config)
    for number, transform in enumerate(together.transforms):
        lost = batch.columns - together.columns
        if lost:
            names = " and ".join(sorted(lost))
            raise ConfigError(
                f"{type(transform).__name__} cannot mix {names}, which the samples have",
                hint="Leave it out of the recipe.",
            )
        _, decided = together.draw(number, rows, plan.size, seed, epoch)
        batch = batch.mixed(decided)
    mixed = bool(together.transforms) or parts is not None
    return [_picture(scene, batch, i, mixed=mixed) for i in range(len(rows))]


def draw_views(
    scene: Scene, columns: Sequence[ImageColumn], seed: int, epoch: int
) -> dict[str, list[Picture]]:
    """Return pictures of all views of the samples in an epoch, by the name and the number of the view.

    The columns hold images of float32. Hidden patches are grey.
    """
    rows = scene.dataset.rows[scene.positions]
    objects = deciding_objects(scene.annotations)
    config = _object_config(scene)
    pictures = {}
    for column in columns:
        for view, keys in enumerate(np.split(column.keys(rows), column.views or 1)):
            params = column.plan.draw(*scene.sizes, keys, seed, epoch, objects=objects)
            batch = _execute(scene, column.plan, params, config)
            if column.mask:
                hidden = column.mask.draw(keys, column.plan.size, seed, epoch)
                patch = np.ones((1, column.mask.patch, column.mask.patch), np.bool_)
                batch.images[np.kron(hidden, patch)] = 128
            name = column.name if column.views is None else f"{column.name} {view}"
            pictures[name] = [_picture(scene, batch, i, mixed=False) for i in range(len(rows))]
    return pictures


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
    """The config of objects with the columns that are drawn."""
    annotations = scene.annotations
    columns = {"box_labels", "crowd"} | ({"keypoints"} if annotations.keypoints is not None else set())
    columns |= {"masks"} if annotations.polygons is not None or annotations.runs is not None else set()
    return ObjectConfig(frozenset(columns), swap=scene.dataset.manifest.annotations.swap)


def _execute(scene: Scene, plan: ImagePlan, params: ImageParams, config: ObjectConfig) -> _Batch:
    """The batch of images and annotations after the transforms of images."""
    n, composition = len(params), params.composition
    if composition is None:
        images = [reference.execute(params, i, scene.pixels[i], "float32", "NHWC") for i in range(n)]
    else:
        pixels = dict(enumerate(scene.pixels))
        images = [compose(params, i, pixels, "float32", "NHWC") for i in range(composition.count)]
    scale, shift = plan.form.scale, plan.form.shift
    objects = transform_objects(scene.annotations, params, *scene.sizes, config)
    if composition is not None:
        objects = composed_objects(covered_objects(objects, params, config), composition)
    segmentation = None
    if scene.segmentation is not None:
        ignore = scene.dataset.manifest.annotations.ignore
        masks = enumerate(scene.segmentation)
        ignore = 255 if ignore is None else ignore
        drawn = np.stack([transform_mask(params, i, mask, ignore) for i, mask in masks])
        segmentation = displace_masks(params, drawn, np.arange(n), ignore)
        if composition is not None:
            segmentation = composed_masks(segmentation, composition, ignore)
    levels = ((np.stack(images) - shift) / scale).astype(np.float32)
    return _Batch(levels, objects, scene.labels, segmentation)


def _picture(scene: Scene, batch: _Batch, i: int, *, mixed: bool) -> Picture:
    of_picture = batch.objects.owner == i
    columns = {name: values[of_picture] for name, values in batch.objects.columns.items()}
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
        left, before = of_picture.sum(), np.count_nonzero(scene.annotations.owner == i)
        caption = (*caption, f"{left} objects" if mixed else f"{left} of {before} objects")
    return Picture(pixels, marks, caption)


def _label_lines(scene: Scene, labels: Array | None, i: int) -> tuple[str, ...]:
    """Lines with the classes of a sample; for a mixed sample one for each class with its share."""
    if labels is None:
        return ()
    classes, ranked = scene.dataset.classes, np.argsort(-labels[i], kind="stable").tolist()
    shown = [label for label in ranked if labels[i, label] >= _LEAST_SHARE]
    if all(labels[i, label] == 1 for label in shown):
        return (", ".join(class_name(classes, label) for label in shown),) if shown else ()
    return tuple(f"{class_name(classes, label)} {labels[i, label]:.2f}" for label in shown)
