"""The parameters that were drawn for each sample of a batch of images, as words and as JSON data."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.augment.params import ImageParams

from ..images.columns import ImageColumn
from ..images.config import ImageLoaderConfig
from ..images.objects import deciding_objects
from ..images.planned_batches import PlannedBatch, planned_batches
from ..order.schedule import Schedule

Int64 = npt.NDArray[np.int64]

_MOST = 64  # numbers of a parameter that are shown; of a longer one the shape is shown
_FLIPS = ("mirrored", "upside down")


@dataclass(frozen=True)
class DrawnSample:
    """A sample of a batch."""

    row: int  # Position of the sample in the loader's dataset
    key: str  # Name of the sample in its source
    words: tuple[str, ...]  # For each image of the sample, its changes or those of its parts in a few words
    # The parameters of each image by the name of its column, and of transforms of batches
    parameters: dict[str, Any]


def draw_batch(
    config: ImageLoaderConfig, schedule: Schedule, epoch: int, rows: Int64 | None
) -> list[DrawnSample]:
    """Draw the first batch of a schedule again."""
    # rows (K,) int64
    planned = next(planned_batches(config, schedule, epoch))
    chosen = _chosen(planned.positions, planned.positions if rows is None else rows)
    keys = config.dataset.keys(planned.positions)
    words: list[list[str]] = [[] for _ in chosen]
    parameters: list[dict[str, Any]] = [{} for _ in chosen]
    draw_epoch = config.draw_epoch(epoch)
    for column in config.images:
        shown = column.samples_of_images(len(planned.sources))
        objects = None
        if column.annotations.needs_boxes:
            objects = deciding_objects(config.dataset.annotations(planned.sources[shown]))
        drawn = config.draw(
            column,
            planned.sources,
            planned.samples,
            planned.draw_keys,
            epoch=draw_epoch,
            objects=objects,
            size=planned.size,
            parts=planned.parts,
        )
        for number, i in enumerate(chosen.tolist()):
            images = _images_of(planned, column, i).tolist()
            changes = [_in_words(drawn, image) for image in images]
            words[number] += changes if planned.parts is None else [" | ".join(changes)]
            of_images = [_of_image(drawn, image, len(drawn)) for image in images]
            alone = planned.parts is None and column.views is None
            parameters[number][column.name] = of_images[0] if alone else of_images
    plan, draw_keys = config.batch_transform_plan, planned.draw_keys[chosen]
    size = config.images[0].at(planned.size).size
    for number in range(len(plan.transforms) if len(chosen) else 0):
        name, mixed = plan.draw(number, draw_keys, size, config.draw_seed, draw_epoch)
        for i, of_sample in enumerate(parameters):
            of_sample[name] = _of_image(mixed, i, len(chosen))
    samples = zip(chosen.tolist(), words, parameters, strict=True)
    return [DrawnSample(int(planned.positions[i]), keys[i], tuple(w), p) for i, w, p in samples]


def _images_of(planned: PlannedBatch, column: ImageColumn, i: int) -> Int64:
    """The rows of the parameters for sample ``i`` of a batch: its image, its views, or its parts."""
    if planned.parts is not None:
        return np.flatnonzero(planned.parts.image == i)
    return column.images_of(np.array([i]), len(planned))


def _chosen(positions: Int64, rows: Int64) -> Int64:
    """The index in ``positions``, (N,), of each of ``rows``, (K,), the rows without bad samples."""
    if len(rows) == len(positions):
        first = {position: i for i, position in reversed(list(enumerate(positions.tolist())))}
        same = rows == positions
        return np.array([i if same[i] else first[row] for i, row in enumerate(rows.tolist())], np.int64)
    indices, i = [], 0
    for row in rows.tolist():
        while positions[i] != row:
            i += 1
        indices.append(i)
        i += 1
    return np.array(indices, np.int64)


def _in_words(params: ImageParams, i: int) -> str:
    top, left, bottom, right = params.region[i].tolist()
    changes = [f"{right - left:.0f} x {bottom - top:.0f} at {left:.0f}, {top:.0f}"]
    changes += [name for name, applies in zip(_FLIPS, params.flip[i].tolist(), strict=True) if applies]
    if params.warp is not None and params.warp.applies(i, params.size):
        changes.append("warped")
    return ", ".join(changes)


def _of_image(params: Any, i: int, n: int) -> dict[str, Any]:
    """The parameters of image ``i`` of ``n`` as JSON data, with those that all images share."""
    values = {field.name: getattr(params, field.name) for field in fields(params)}
    return {name: _plain(value, i, n) for name, value in values.items() if value is not None}


def _plain(value: Any, i: int, n: int) -> Any:
    if isinstance(value, np.ndarray):
        values = value[i] if value.ndim and len(value) == n else value
        return values.tolist() if values.size <= _MOST else f"{values.dtype} of shape {values.shape}"
    if isinstance(value, np.generic):
        return value.item()
    if is_dataclass(value):
        return {"name": type(value).__name__, **_of_image(value, i, n)}
    if isinstance(value, (tuple, list)):
        return [_plain(item, i, n) for item in value]
    return value if isinstance(value, (bool, int, float, str)) else str(value)
