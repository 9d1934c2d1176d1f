"""Pictures of the images of a loader's batch, with their annotations."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.augment.geometry.boxes import convert_boxes

from ..images.columns import ImageColumn
from ..images.config import ImageLoaderConfig
from .pictures import Marks, Picture
from .scene import class_name
from .text import dataset_decoder

Array = npt.NDArray[Any]

_LEAST_SHARE = 0.05  # of a class in a mixed label that a caption names
_CHEQUER, _DARK, _LIGHT = 8, 153, 204  # behind transparent pixels: side of a square, and the two levels


def picture_of(
    config: ImageLoaderConfig,
    batch: Any,
    i: int,
    image: Array,
    *,
    column: ImageColumn | None = None,
    view: int | None = None,
    key: str | None = None,
    note: str = "",
    padding: bool = False,
) -> Picture:
    """Return the picture of an image of a batch."""
    layout = "NHWC" if column is None else config.image_format.layout
    pixels = _levels(image, layout, config.images[0] if column is None else column)
    if column is not None and f"{column.prefix}image_size" in config.columns and not padding:
        height, width = getattr(batch, f"{column.prefix}image_size")[i].tolist()
        pixels = pixels[:height, :width]
    caption = (note,) if key is None else (*_labels(config, batch, i), key, note)
    return Picture(pixels, _marks(config, batch, i, column, view), tuple(line for line in caption if line))


def _levels(image: Array, layout: str, column: ImageColumn) -> npt.NDArray[np.uint8]:
    """Pixels as (H, W, 3) uint8 RGB, without normalisation; grey and other channels become RGB, too."""
    form = column.plan.form
    values = np.moveaxis(image, 0, -1) if layout == "NCHW" else image
    values = values[..., :3] if layout == "NHWC4" else values
    levels = values.astype(np.float64)
    if levels.shape[-1] == len(form.scale):
        levels = form.to_levels(levels) * (255 / form.white)
    channels = levels.shape[-1]
    if channels == 4 and layout != "NHWC4":
        levels = _on_chequers(levels)
    levels = levels[..., :3] if channels >= 3 else np.repeat(levels[..., :1], 3, axis=-1)
    return np.floor(levels.clip(0, 255) + 0.5).astype(np.uint8)


def _on_chequers(levels: Array) -> Array:
    """(H, W, 3): RGBA over squares, which show where the image is transparent."""
    rows, columns = (np.arange(side) // _CHEQUER for side in levels.shape[:2])
    squares = np.where((rows[:, None] + columns) % 2, _DARK, _LIGHT)[..., None]
    alpha = levels[..., 3:] / 255
    return np.asarray(levels[..., :3] * alpha + squares * (1 - alpha))


def images_of_patches(batch: Any, size: int) -> list[Array]:
    """The images, (H, W, C), of packed rows of patches, row after row."""
    images = []
    for patches, segments, coordinates in zip(
        batch.patches, batch.segment_ids, batch.patch_positions, strict=True
    ):
        for segment in range(1, int(segments.max(initial=0)) + 1):
            of_image = segments == segment
            rows, columns = coordinates[of_image].max(axis=0) + 1
            cells = patches[of_image].reshape(rows, columns, size, size, -1)
            images.append(cells.swapaxes(1, 2).reshape(rows * size, columns * size, -1))
    return images


def texts_of_captions(config: ImageLoaderConfig, batch: Any) -> list[str]:
    """The text of the packed caption of each image of packed rows; empty texts without captions."""
    counts = (batch.row >= 0).sum(axis=1).tolist()
    if "caption" not in config.columns:
        return [""] * sum(counts)
    decode = dataset_decoder(config.dataset.datasets[0])
    return [
        decode(ids[segments == segment + 1].tolist())
        for ids, segments, count in zip(batch.caption, batch.caption_segment_ids, counts, strict=True)
        for segment in range(count)
    ]


def _labels(config: ImageLoaderConfig, batch: Any, i: int) -> tuple[str, ...]:
    """Lines that name the classes of a sample."""
    if "label" not in config.columns or config.size_plan.patch_planner:
        return ()
    label, classes = batch.label[i], config.dataset.classes
    if not np.ndim(label):
        return (class_name(classes, int(label)),)
    ranked = [
        number for number in np.argsort(-label, kind="stable").tolist() if label[number] >= _LEAST_SHARE
    ]
    shares = [(class_name(classes, number), float(label[number])) for number in ranked]
    return tuple(one if share == 1 else f"{one} {share:.2f}" for one, share in shares)


def _marks(
    config: ImageLoaderConfig, batch: Any, i: int, column: ImageColumn | None, view: int | None
) -> Marks:
    """The annotations of an image in the batch."""

    def part(name: str) -> Any:
        full = f"{column.prefix if column else ''}{name}"
        if full not in config.columns or column is None:
            return None
        values = getattr(batch, full)
        return (values if view is None else values[view])[i]

    boxes, count = part("boxes"), part("count")
    if boxes is None:
        none = np.zeros(0, np.int64)
        return Marks(none, none.astype(np.bool_), np.zeros((0, 4)), segmentation=part("segmentation"))
    n = len(boxes) if count is None else int(count)
    assert column is not None, "boxes follow a column"
    corners = convert_boxes(boxes[:n], column.annotations.objects.box_format, "XYXY")
    labels, crowd, keypoints, masks = (part(name) for name in ("box_labels", "crowd", "keypoints", "masks"))
    return Marks(
        np.zeros(n, np.int64) if labels is None else labels[:n],
        np.zeros(n, np.bool_) if crowd is None else crowd[:n],
        corners,
        None if keypoints is None else keypoints[:n],
        None if masks is None else masks[:n],
        part("segmentation"),
    )
