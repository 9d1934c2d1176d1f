"""The objects of image batches: boxes, keypoints and masks follow the transforms of their images.

C++ computes them, because a call of NumPy costs more than the computation for a hundred boxes. NumPy computes
what C++ lacks, with the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker.augment.geometry.annotations import (
    area_scale,
    displace_boxes,
    displace_corners,
    displace_keypoints,
    displace_masks,
    forward_matrix,
    mirrored,
    shown,
    transform_boxes,
    transform_keypoints,
)
from stoker.augment.geometry.boxes import Objects as DecidingObjects
from stoker.augment.geometry.boxes import box_areas, convert_boxes
from stoker.augment.geometry.masks import mask_boxes
from stoker.augment.params import Composition, ImageParams, Paste
from stoker.augment.resampling import apply_matrix
from stoker.errors import ConfigError
from stoker.formats.dataset.annotations import Annotations
from stoker.formats.dataset.columns import expand_ranges
from stoker.random import sequence, unit_interval

from ..options import Objects

Array = npt.NDArray[Any]
Int64 = npt.NDArray[np.int64]
Ints = npt.NDArray[np.integer[Any]]
Mask = npt.NDArray[np.uint8]

EXTRA_PREFIX = "object_"
"""Start of the names of columns that only some sources have, such as "object_difficult"; "object_id" is not
one of these, because every source has it."""


@dataclass(frozen=True)
class ObjectConfig(Objects):
    """The columns of objects, and their form."""

    columns: frozenset[str] = frozenset()  # Names of the columns


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

    def column(self, name: str, config: ObjectConfig) -> Array:
        """One column as the loader returns it, (M, ...); lengths and areas are float32."""
        values = self.columns[name]
        if name == "boxes":
            values = convert_boxes(values, "XYXY", config.box_format)
        return values.astype(np.float32) if values.dtype == np.float64 else values


def deciding_objects(annotations: Annotations) -> DecidingObjects:
    """The boxes by which transforms decide, such as RandomIoUCrop: of single objects, not of groups."""
    single = ~annotations.crowd
    return DecidingObjects(annotations.boxes[single].astype(np.float64), annotations.owner[single])


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
    displaced, corners = displace_boxes(params, boxes, annotations.owner), None
    seen = displaced
    if annotations.corners is not None:
        corners = output_corners(params, annotations.corners, annotations.owner)
        # The upright box around what was a turned box is larger than the one around its corners.
        low, high = np.maximum(seen[:, :2], corners.min(axis=1)), np.minimum(seen[:, 2:], corners.max(axis=1))
        seen = np.concatenate((low, high), axis=1)
    if seen is not boxes:
        sides = seen[:, 2:] - seen[:, :2]
        keep &= np.all((sides > 0) & (sides >= config.min_size), axis=1)
    kept = annotations
    if not keep.all():
        kept, displaced, seen = annotations.take(keep), displaced[keep], seen[keep]
    columns: dict[str, Array] = {
        "boxes": seen,
        "box_labels": kept.labels,
        "crowd": kept.crowd,
        "object_id": kept.id,
        **{EXTRA_PREFIX + name: values for name, values in kept.extra.items()},
    }
    if "area" in config.columns:
        columns["area"] = kept.area * _area_scale(kept, params, displaced)
    if corners is not None:
        columns["corners"] = corners[keep]
    if kept.keypoints is not None and "keypoints" in config.columns:
        if not config.swap and kept.keypoints.shape[1] > 1 and mirrored(params)[kept.owner].any():
            raise ConfigError(
                "the image is mirrored, and which keypoints are left and right is not known",
                hint="Name the one that each becomes with objects=stoker.Objects(swap=[1, 0, ...]), or leave "
                "flips out. Of a source, names such as left_eye and right_eye, YOLO's flip_idx, or "
                "SourceOptions(keypoint_pairs=...) say it.",
            )
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


def output_boxes(
    params: ImageParams,
    boxes: npt.NDArray[np.float32],
    owner: Int64,
    *,
    min_visible: float = 0.0,
    min_size: float = 0.0,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Boxes of the output, (M, 4) float64 XYXY, and which to keep, (M,) bool; see :func:`transform_boxes`."""
    if _is_general(params):
        return transform_boxes(params, boxes, owner, min_visible=min_visible, min_size=min_size)
    return _native.transform_boxes(
        boxes,
        owner,
        params.size,
        params.region,
        params.dest,
        params.flip,
        shown(params),
        params.window,
        min_visible,
        min_size,
    )


def output_keypoints(
    params: ImageParams, keypoints: npt.NDArray[np.float32], owner: Int64, swap: Sequence[int]
) -> npt.NDArray[np.float64]:
    """Keypoints of the output, (M, K, 3) float64; see :func:`transform_keypoints`."""
    if _is_general(params):
        return transform_keypoints(params, keypoints, owner, swap or None)
    exchanged = np.array(swap, np.int64) if swap else None
    return _native.transform_keypoints(
        keypoints, owner, params.size, params.region, params.dest, params.flip, shown(params), exchanged
    )


def output_corners(
    params: ImageParams, corners: npt.NDArray[np.float32], owner: Int64
) -> npt.NDArray[np.float64]:
    """Corners in the output, (M, 4, 2) float64, also where they lie outside of it."""
    points = apply_matrix(forward_matrix(params)[owner], corners.astype(np.float64))
    return displace_corners(params, points, owner)


def _is_general(params: ImageParams) -> bool:
    """Whether the C++ code lacks what these images need."""
    return params.warp is not None or params.border is not None or params.image_size is not None


_OBJECTS = 64  # the number of objects is rounded up to a multiple, so that few sizes of memory occur
_BATCHES = 8  # whose memory is kept; with fewer, alternating sizes evict each other


class MaskMemory:
    """Memory for instance masks, which is reused: new pages of memory cost more than drawing."""

    def __init__(self) -> None:
        self._pool = _native.BufferPool(_BATCHES)

    def empty(self, count: int, size: tuple[int, int]) -> Mask:
        """(count, H, W) uint8 with undefined contents, for images of ``size``, (H, W)."""
        rounded = -(-count // _OBJECTS) * _OBJECTS
        return self._pool.array((rounded, *size), "uint8")[:count]


def draw_segments(
    params: ImageParams,
    owner: Ints,
    height: Ints,
    width: Ints,
    *,
    polygons: Sequence[Sequence[npt.NDArray[np.floating[Any]]]] | None = None,
    runs: Sequence[Ints] | None = None,
    memory: MaskMemory | None = None,
) -> Mask:
    """Masks of objects, as :func:`stoker.augment.geometry.masks.transform_segments` makes them."""
    # owner (M,), height (N,), width (N,) -> (M, H, W) uint8
    masks = (memory or MaskMemory()).empty(len(owner), params.size)
    owners, region, visible = np.asarray(owner, np.int64), params.region, shown(params)
    flat = list(chain.from_iterable(polygons or ()))
    _native.fill_polygons(  # fills the masks even if there are no polygons
        masks,
        owners,
        forward_matrix(params),
        region,
        visible,
        np.concatenate(flat, dtype=np.float64) if flat else np.zeros((0, 2)),
        _counts(flat),
        _counts(polygons) if polygons else np.zeros(len(owners), np.int64),
    )
    if runs:
        _native.fill_runs(
            masks,
            owners,
            params.to_source(),
            region,
            visible,
            np.asarray(height, np.int32),
            np.asarray(width, np.int32),
            np.concatenate(runs, dtype=np.uint32, casting="same_kind"),
            _counts(runs),
        )
    return masks


def draw_class_masks(
    params: ImageParams, data: Sequence[bytes], height: Ints, width: Ints, *, ignore: int, out: Mask
) -> list[int]:
    """Draw class masks, as :func:`stoker.augment.geometry.annotations.transform_mask` makes them."""
    # It draws intact PNGs with one channel of 8 bits that are as large as their source, and no mask at all if
    # padding continues the images.
    # height (N,), width (N,), out (N, H, W) uint8
    if params.border is not None:
        return list(range(len(params)))
    return _native.class_masks(
        out,
        list(data),
        params.to_source(),
        params.region,
        shown(params),
        np.asarray(height, np.int32),
        np.asarray(width, np.int32),
        ignore,
    )


def bad_runs(runs: Sequence[Ints], pixels: Ints) -> npt.NDArray[np.intp]:
    """Indices of objects whose run lengths do not sum to the ``pixels``, (M,), of their source."""
    counts = _counts(runs)
    if not counts.any():
        return np.zeros(0, np.intp)
    sums = np.concatenate(([0], np.cumsum(np.concatenate(runs), dtype=np.int64)))
    ends = np.cumsum(counts)
    return np.flatnonzero((counts > 0) & (sums[ends] - sums[ends - counts] != pixels))


def bad_polygons(polygons: Sequence[Sequence[npt.NDArray[np.floating[Any]]]]) -> npt.NDArray[np.intp]:
    """Indices of objects that have a polygon with a vertex that is not finite."""
    flat = list(chain.from_iterable(polygons))
    if not flat or np.isfinite(np.concatenate(flat)).all():
        return np.zeros(0, np.intp)
    return np.flatnonzero([not all(np.isfinite(one).all() for one in some) for some in polygons])


def _counts(lists: Sequence[Sequence[Any] | npt.NDArray[Any]]) -> npt.NDArray[np.int64]:
    return np.fromiter(map(len, lists), np.int64, len(lists))


def with_pasted_masks(
    params: ImageParams,
    annotations: Annotations,
    height: Ints,
    width: Ints,
    *,
    config: ObjectConfig,
    memory: MaskMemory | None = None,
) -> ImageParams:
    """The parameters with the masks of the objects that are pasted; unchanged where none can be."""
    # height (P,), width (P,)
    composition = params.composition
    if composition is None or composition.paste is None:
        return params
    pasted = annotations.take(_pasted(params, composition, composition.paste, annotations, config))
    drawn = draw_segments(
        params, pasted.owner, height, width, polygons=pasted.polygons, runs=pasted.runs, memory=memory
    )
    above = composition.layer > 0
    images, number = np.unique(composition.image[above], return_inverse=True)
    masks = np.zeros((len(images), *params.size), np.uint8)
    for mask, owner in zip(drawn, pasted.owner, strict=True):
        masks[np.searchsorted(images, composition.image[owner])] |= mask
    mask_of = np.full(len(params), -1, np.int32)
    mask_of[above] = number
    return replace(params, composition=replace(composition, mask=mask_of, masks=masks.ravel()))


def _pasted(
    params: ImageParams,
    composition: Composition,
    paste: Paste,
    annotations: Annotations,
    config: ObjectConfig,
) -> npt.NDArray[np.bool_]:
    """(M,) bool, objects of the upper layers that are pasted."""
    owner = annotations.owner
    # The number of each object among those of its layer, by which it is drawn.
    image, layer = composition.image[owner].astype(np.int64), composition.layer[owner]
    first = np.searchsorted(image * 256 + layer, image * 256 + layer)
    drawn = unit_interval(sequence(paste.keys[owner], np.arange(len(owner)) - first))
    chosen = (layer > 0) & (drawn < paste.share) & ~annotations.crowd
    kept = {"min_visible": config.min_visible, "min_size": config.min_size}
    _, seen = output_boxes(params, annotations.boxes, owner, **kept)
    return np.asarray(chosen & seen)


def transform_below_pasted(
    annotations: Annotations,
    params: ImageParams,
    height: Ints,
    width: Ints,
    config: ObjectConfig,
    *,
    memory: MaskMemory | None = None,
) -> BatchObjects:
    """The objects of P parts, those of the lowest layer without what pasted objects cover."""
    # height (P,), width (P,)
    composition = params.composition
    if composition is None or composition.paste is None:
        return transform_objects(annotations, params, height, width, config, memory=memory)
    pasted = _pasted(params, composition, composition.paste, annotations, config)
    kept = annotations.take(pasted | (composition.layer[annotations.owner] == 0))
    drawn = replace(config, columns=config.columns | {"masks"})
    objects = transform_objects(kept, params, height, width, drawn, memory=memory)
    masks = composition.masks.reshape(-1, *params.size)
    # The mask of each image's upper layer; -1 for images without one.
    of_image = np.full(composition.count, -1)
    np.maximum.at(of_image, composition.image, composition.mask)
    below = composition.layer[objects.owner] == 0
    at = of_image[composition.image[objects.owner]]
    columns = {name: values.copy() for name, values in objects.columns.items()}
    keep = np.ones(len(objects), np.bool_)
    for k in np.flatnonzero(below & (at >= 0)).tolist():
        keep[k] = _cover(columns, k, masks[at[k]], composition.paste.min_left, config.min_size)
    names = columns.keys() & (config.columns | {"boxes"})
    return BatchObjects(objects.owner[keep], {name: columns[name][keep] for name in names})


def _cover(columns: dict[str, Any], k: int, mask: Mask, min_left: float, min_size: float) -> bool:
    """Remove the pixels of ``mask`` from object ``k``; return whether enough of the object is visible."""
    object_mask = columns["masks"][k]
    before = int(np.count_nonzero(object_mask))
    hidden = object_mask & mask
    lost = int(np.count_nonzero(hidden))
    if "keypoints" in columns:
        _hide_points(columns["keypoints"][k], mask)
    if not lost:
        return True
    object_mask ^= hidden
    if lost == before or before - lost < min_left * before:
        return False
    seen = mask_boxes(object_mask[None])[0]
    box = columns["boxes"][k]
    box[:2], box[2:] = np.maximum(box[:2], seen[:2]), np.minimum(box[2:], seen[2:])
    if "area" in columns:
        columns["area"][k] *= (before - lost) / before
    return bool(np.all(box[2:] - box[:2] >= max(min_size, 1e-6)))


def _hide_points(points: npt.NDArray[np.float64], mask: Mask) -> None:
    """Mark visible keypoints, (K, 3), that ``mask`` covers as labelled and hidden."""
    at = np.floor(points[:, :2]).astype(np.int64).clip(0, (mask.shape[1] - 1, mask.shape[0] - 1))
    points[(points[:, 2] == 2) & (mask[at[:, 1], at[:, 0]] != 0), 2] = 1
