"""Pictures of the samples of a batch, as the training received them, for the sheet of a replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stoker.augment.geometry.boxes import convert_boxes

from ..images.sizes.patches.patches import Patches
from ..preview.pictures import Marks, Picture

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from ..images.columns.image_column import ImageColumn
    from ..images.config import ImageLoaderConfig
    from .drawn import DrawnSample

    Array = npt.NDArray[Any]

__all__ = ["draw_samples"]

_LEAST_SHARE = 0.05  # of a class in a mixed label that a caption names


def draw_samples(
    config: ImageLoaderConfig, batch: Any, samples: Sequence[DrawnSample]
) -> list[tuple[Picture, ...]]:
    """Return the pictures of each sample: one, or all of its views in all columns of images.

    Args:
        config: Config of the loader.
        batch: The batch, arrays of NumPy.
        samples: What was drawn for its N samples.
    """
    if isinstance(config.size_plan.given, Patches):
        images = _from_patches(batch, config.size_plan.given.size)
        return [(_picture(config, batch, sample, i, images[i]),) for i, sample in enumerate(samples)]
    found = []
    for i, sample in enumerate(samples):
        pictures: list[Picture] = []
        for column in config.images:
            if column.name not in config.columns:
                continue
            values = getattr(batch, column.name)
            for view in [None] if column.views is None else range(column.views):
                image = values[i] if view is None else values[view][i]
                pictures.append(
                    _picture(config, batch, sample, i, image, column=column, view=view, number=len(pictures))
                )
        found.append(tuple(pictures))
    return found


def _picture(
    config: ImageLoaderConfig,
    batch: Any,
    sample: DrawnSample,
    i: int,
    image: Array,
    *,
    column: ImageColumn | None = None,
    view: int | None = None,
    number: int = 0,
) -> Picture:
    layout = "NHWC" if column is None else config.image_format.layout
    pixels = _levels(image, layout, config.images[0] if column is None else column)
    if column is not None and f"{column.prefix}image_size" in config.columns:
        height, width = getattr(batch, f"{column.prefix}image_size")[i].tolist()
        pixels = pixels[:height, :width]
    said = sample.words[number] if number < len(sample.words) else ""
    caption = (*_labels(config, batch, i), sample.key, said) if number == 0 else (said,)
    return Picture(pixels, _marks(config, batch, i, column, view), tuple(line for line in caption if line))


def _levels(image: Array, layout: str, column: ImageColumn) -> npt.NDArray[np.uint8]:
    """Pixels as (H, W, 3) uint8: normalisation is undone, and grey and other channels are shown as RGB."""
    form = column.plan.form
    values = np.moveaxis(image, 0, -1) if layout == "NCHW" else image
    values = values[..., :3] if layout == "NHWC4" else values
    levels = values.astype(np.float64)
    if levels.shape[-1] == len(form.scale):
        levels = form.to_levels(levels) * (255 / form.white)
    channels = levels.shape[-1]
    levels = levels[..., :3] if channels >= 3 else np.repeat(levels[..., :1], 3, axis=-1)
    return np.floor(levels.clip(0, 255) + 0.5).astype(np.uint8)


def _from_patches(batch: Any, size: int) -> list[Array]:
    """The images, (H, W, C), of packed rows of patches, row after row."""
    found = []
    for patches, segments, places in zip(
        batch.patches, batch.segment_ids, batch.patch_positions, strict=True
    ):
        for segment in range(1, int(segments.max(initial=0)) + 1):
            own = segments == segment
            rows, columns = places[own].max(axis=0) + 1
            cells = patches[own].reshape(rows, columns, size, size, -1)
            found.append(cells.swapaxes(1, 2).reshape(rows * size, columns * size, -1))
    return found


def _labels(config: ImageLoaderConfig, batch: Any, i: int) -> tuple[str, ...]:
    """Lines that name the classes of a sample."""
    if "label" not in config.columns or config.size_plan.patch_planner:
        return ()
    label, classes = batch.label[i], config.dataset.classes

    def name(number: int) -> str:
        return classes[number] if 0 <= number < len(classes) else f"class {number}"

    if not np.ndim(label):
        return (name(int(label)),)
    ranked = np.argsort(-label, kind="stable").tolist()
    shares = [(name(number), float(label[number])) for number in ranked if label[number] >= _LEAST_SHARE]
    return tuple(one if share == 1 else f"{one} {share:.2f}" for one, share in shares)


def _marks(
    config: ImageLoaderConfig, batch: Any, i: int, column: ImageColumn | None, view: int | None
) -> Marks:
    """The annotations of an image that the batch has."""

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
