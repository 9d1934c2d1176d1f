"""Images of a loader's batch as cells of a page, with their annotations, for previews and replays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.augment.geometry.boxes import convert_boxes

from ..images.columns import ImageColumn
from ..images.config import ImageLoaderConfig
from ..images.planners import Patches
from .drawing import NO_MARKS, Marks
from .page import Cell, class_name
from .text import dataset_decoder

Array = npt.NDArray[Any]

_LEAST_SHARE = 0.05  # of a class in a mixed label that a caption names
_CHEQUER, _DARK, _LIGHT = 8, 153, 204  # behind transparent pixels: side of a square, and the two levels
_HIDDEN = 128  # grey of hidden patches


def sample_cells(
    config: ImageLoaderConfig,
    batch: Any,
    i: int,
    key: str,
    notes: Sequence[str] = (),
    *,
    whole: bool = False,
) -> tuple[Cell, ...]:
    """Return the cells of sample ``i`` of a batch: its image, or all views in all image columns.

    With ``whole`` an image keeps its padding, and the caption has both sizes.
    """
    cells: list[Cell] = []
    for column in config.images:
        if column.name not in config.columns:
            continue
        values = getattr(batch, column.name)
        for view in [None] if column.views is None else range(column.views):
            pixels = _levels(
                (values if view is None else values[view])[i], config.image_format.layout, column
            )
            note = notes[len(cells)] if len(cells) < len(notes) else ""
            size = _part(config, batch, column, view, "image_size")
            if whole:
                note = f"{pixels.shape[1]} x {pixels.shape[0]}"
                note = note if size is None else f"{size[i][1]} x {size[i][0]} in {note}"
            elif size is not None:
                pixels = pixels[: size[i][0], : size[i][1]]
            if (hidden := _part(config, batch, column, view, "mask")) is not None:
                pixels[_grown(hidden[i], pixels.shape[:2])] = _HIDDEN
            lines = () if cells else (*label_lines(config, batch, i), key)
            marks = _marks(config, batch, i, column, view)
            cells.append(Cell(pixels, marks, tuple(line for line in (*lines, note) if line)))
    return tuple(cells)


def patch_cells(
    config: ImageLoaderConfig, batch: Any, patches: Patches, keys: Sequence[str], notes: Sequence[str] = ()
) -> list[Cell]:
    """Return the cells of all images of packed rows of patches, with their captions, row after row."""
    cells = []
    images, captions = _images_of_patches(batch, patches.size), _packed_captions(config, batch)
    for number, (image, key) in enumerate(zip(images, keys, strict=True)):
        height, width = (side // patches.size for side in image.shape[:2])
        note = notes[number] if notes else f"{width} x {height} patches"
        lines = tuple(line for line in (key, note, captions[number]) if line)
        cells.append(Cell(_levels(image, "NHWC", config.images[0]), NO_MARKS, lines))
    return cells


def label_lines(config: ImageLoaderConfig, batch: Any, i: int) -> tuple[str, ...]:
    """Return the lines that name the classes of a sample; of a mixed sample one for each class."""
    if "label" not in config.columns:
        return ()
    label, classes = batch.label[i], config.dataset.classes
    if not np.ndim(label):
        return (class_name(classes, int(label)),)
    order = np.argsort(-label, kind="stable").tolist()
    shares = [(class_name(classes, k), float(label[k])) for k in order if label[k] >= _LEAST_SHARE]
    if all(share == 1 for _, share in shares):
        return (", ".join(name for name, _ in shares),) if shares else ()
    return tuple(f"{name} {share:.2f}" for name, share in shares)


def _part(config: ImageLoaderConfig, batch: Any, column: ImageColumn, view: int | None, name: str) -> Any:
    """A column of the batch that follows an image column; None if the batch lacks it."""
    full = f"{column.prefix}{name}"
    if full not in config.columns or (name == "mask" and not column.mask):
        return None
    values = getattr(batch, full)
    return values if view is None else values[view]


def _grown(hidden: Array, size: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """The mask of patches, (rows, columns) bool, as a mask of pixels, (H, W)."""
    rows, columns = (np.arange(side) * of // side for side, of in zip(size, hidden.shape, strict=True))
    return np.asarray(hidden[np.ix_(rows, columns)])


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


def _images_of_patches(batch: Any, size: int) -> list[Array]:
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


def _packed_captions(config: ImageLoaderConfig, batch: Any) -> list[str]:
    """The text of the packed caption of each image of packed rows; empty without captions."""
    counts = (batch.row >= 0).sum(axis=1).tolist()
    if "caption" not in config.columns:
        return [""] * sum(counts)
    decode = dataset_decoder(config.dataset.datasets[0])
    return [
        decode(ids[segments == segment + 1].tolist())
        for ids, segments, count in zip(batch.caption, batch.caption_segment_ids, counts, strict=True)
        for segment in range(count)
    ]


def _marks(config: ImageLoaderConfig, batch: Any, i: int, column: ImageColumn, view: int | None) -> Marks:
    """The annotations of an image in the batch."""

    def part(name: str) -> Any:
        values = _part(config, batch, column, view, name)
        return None if values is None else values[i]

    boxes, count, segmentation = part("boxes"), part("count"), part("segmentation")
    if boxes is None:
        return Marks(NO_MARKS.labels, NO_MARKS.crowd, NO_MARKS.boxes, segmentation=segmentation)
    n = len(boxes) if count is None else int(count)
    labels, crowd, keypoints, masks = (part(name) for name in ("box_labels", "crowd", "keypoints", "masks"))
    return Marks(
        np.zeros(n, np.int64) if labels is None else labels[:n],
        np.zeros(n, np.bool_) if crowd is None else crowd[:n],
        convert_boxes(boxes[:n], column.annotations.objects.box_format, "XYXY"),
        None if keypoints is None else keypoints[:n],
        None if masks is None else masks[:n],
        segmentation,
    )
