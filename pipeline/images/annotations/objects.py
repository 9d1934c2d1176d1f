"""The objects of a batch: their columns follow the transforms of their images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from stoker.augment.batch import BatchParams
from stoker.augment.geometry.annotations import area_scale, displace_boxes, displace_keypoints, displace_masks
from stoker.augment.geometry.boxes import BoxFormat, box_areas, box_format, convert_boxes
from stoker.augment.params import ImageParams
from stoker.errors import ConfigError
from stoker.formats.dataset.annotations import Annotations
from stoker.formats.dataset.columns import expand_ranges

from .mask_drawing import MaskMemory, draw_segments
from .object_geometry import output_boxes, output_keypoints

Array = npt.NDArray[Any]
Int64 = npt.NDArray[np.int64]

ObjectForm = Literal["ragged", "padded"]

EXTRA_PREFIX = "object_"
"""Start of the names of columns with a source's own facts about objects, such as "object_difficult".
"object_id" is not such a column, because every source has it."""


@dataclass(frozen=True)
class ObjectConfig:
    """Which columns of objects a loader hands out, and in which form; see :class:`stoker.ImageLoader`."""

    columns: frozenset[str] = frozenset()  # Names of the columns
    form: ObjectForm = "ragged"  # "ragged" or "padded"
    box_format: BoxFormat = "XYXY"  # Format of the boxes that are handed out
    min_visible: float = 0.0  # Least share of a box's area that must be visible, 0 to 1
    min_size: float = 0.0  # Least width and height of a box, pixels of the output
    # (K,) number that each keypoint has in a mirrored image; empty if all keep theirs
    swap: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.form not in get_args(ObjectForm):
            forms = ", ".join(get_args(ObjectForm))
            raise ConfigError(f"objects must be one of {forms}, found {self.form!r}")
        object.__setattr__(self, "box_format", box_format("box_format", self.box_format))
        if not 0 <= self.min_visible <= 1:
            raise ConfigError(f"min_visible must be a share from 0 to 1, found {self.min_visible!r}")
        if not 0 <= self.min_size < np.inf:
            raise ConfigError(f"min_size must be pixels from 0, found {self.min_size!r}")


@dataclass(frozen=True, eq=False)
class BatchObjects:
    """M objects of N images, image by image."""

    owner: Int64  # (M,) int64, ascending, index in the batch of each object's image
    # (M, ...) by name. "boxes" is always there, (M, 4) float64 XYXY, pixels of the output
    columns: Mapping[str, Array]

    def __len__(self) -> int:
        return len(self.owner)

    def counts(self, n: int) -> Int64:
        """Number of objects of each of ``n`` images, (n,) int64."""
        return np.bincount(self.owner, minlength=n)

    def of_samples(self, chosen: Int64, n: int) -> BatchObjects:
        """The objects of the images at ``chosen``, (K,) indices among ``n`` images, which may repeat."""
        ends = np.concatenate(([0], np.cumsum(self.counts(n))))
        start, stop = ends[chosen], ends[chosen + 1]
        at = expand_ranges(start, stop)
        owner = np.repeat(np.arange(len(chosen)), stop - start)
        return BatchObjects(owner, {name: values[at] for name, values in self.columns.items()})

    def mixed(self, params: BatchParams, config: ObjectConfig) -> BatchObjects:
        """The objects that the images show after a transform of batches, which drops and repeats objects."""
        moved = params.boxes(
            self.columns["boxes"], self.owner, min_visible=config.min_visible, min_size=config.min_size
        )
        columns: dict[str, Array] = {}
        for name, values in self.columns.items():
            if name == "boxes":
                columns[name] = moved.boxes
            elif name == "keypoints":
                columns[name] = params.keypoints(values, moved)
            elif name == "masks":
                columns[name] = params.masks(values, moved)
            elif name == "area":
                columns[name] = values[moved.origin] * moved.area_scale
            else:
                columns[name] = values[moved.origin]
        return BatchObjects(moved.owner, columns)

    def column(self, name: str, config: ObjectConfig) -> Array:
        """One column as it is handed out, (M, ...); lengths and areas are float32."""
        values = self.columns[name]
        if name == "boxes":
            values = convert_boxes(values, "XYXY", config.box_format)
        return values.astype(np.float32) if values.dtype == np.float64 else values


def transform_objects(
    annotations: Annotations,
    params: ImageParams,
    height: npt.NDArray[np.integer[Any]],
    width: npt.NDArray[np.integer[Any]],
    config: ObjectConfig,
    *,
    memory: MaskMemory | None = None,
) -> BatchObjects:
    """The objects that the images of a batch show after their transforms."""
    # height (N,), width (N,)
    boxes, keep = output_boxes(
        params, annotations.boxes, annotations.owner, min_visible=config.min_visible, min_size=config.min_size
    )
    displaced = displace_boxes(params, boxes, annotations.owner)
    if displaced is not boxes:
        boxes, sides = displaced, displaced[:, 2:] - displaced[:, :2]
        keep &= np.all((sides > 0) & (sides >= config.min_size), axis=1)
    kept = annotations
    if not keep.all():
        kept, boxes = annotations.take(keep), boxes[keep]
    columns: dict[str, Array] = {
        "boxes": boxes,
        "box_labels": kept.labels,
        "crowd": kept.crowd,
        "object_id": kept.id,
        **{EXTRA_PREFIX + name: values for name, values in kept.extra.items()},
    }
    if "area" in config.columns:
        columns["area"] = kept.area * _area_scale(kept, params, boxes)
    if kept.keypoints is not None and "keypoints" in config.columns:
        keypoints = output_keypoints(params, kept.keypoints, kept.owner, config.swap)
        columns["keypoints"] = displace_keypoints(params, keypoints, kept.owner)
    if "masks" in config.columns:
        masks = draw_segments(
            params, kept.owner, height, width, polygons=kept.polygons, runs=kept.runs, memory=memory
        )
        columns["masks"] = displace_masks(params, masks, kept.owner, 0)
    wanted = config.columns | {"boxes"}
    return BatchObjects(kept.owner, {name: columns[name] for name in columns.keys() & wanted})


def pad(values: Array, counts: Int64) -> Array:
    """(N, largest count, ...): the next ``counts[i]`` rows of ``values``, (M, ...), and zeros after them."""
    most = int(counts.max(initial=0))
    padded: Array = np.zeros((len(counts), most, *values.shape[1:]), values.dtype)
    padded[np.arange(most) < counts[:, None]] = values
    return padded


def _area_scale(kept: Annotations, params: ImageParams, boxes: Array) -> Array:
    """Factors of objects' areas, (M,): the image's scale at the object, times the visible share of its box.

    The upright box around a turned object is larger than the object, so the share is 1 at most.
    """
    source = kept.boxes.astype(np.float64)
    scale = area_scale(params, (source[:, :2] + source[:, 2:]) / 2, kept.owner)
    seen, whole = box_areas(boxes), box_areas(source)
    return np.asarray(np.minimum(scale, np.divide(seen, whole, out=np.zeros_like(whole), where=whole > 0)))
