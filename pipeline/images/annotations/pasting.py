"""Pasted objects: the choice of objects, their masks for the engine, and the objects that they cover.

``CopyPaste`` draws the other image and a key. It does not know the annotations, so the loader chooses the
objects by this key, and draws their masks with the parameters of the image.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.augment.geometry.masks import mask_boxes
from stoker.augment.params import Composition, ImageParams
from stoker.formats.dataset.annotations import Annotations
from stoker.random import sequence, unit_interval

from .mask_drawing import MaskMemory, draw_segments
from .object_geometry import output_boxes
from .objects import BatchObjects, ObjectConfig

Ints = npt.NDArray[np.integer[Any]]
Masks = npt.NDArray[np.uint8]


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
    pasted = annotations.take(_pasted(params, composition, annotations, config))
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


def remaining(params: ImageParams, annotations: Annotations, config: ObjectConfig) -> npt.NDArray[np.bool_]:
    """(M,) bool, objects that are pasted or belong to the image itself."""
    composition = params.composition
    if composition is None or composition.paste is None:
        return np.ones(len(annotations), np.bool_)
    below = composition.layer[annotations.owner] == 0
    return np.asarray(below | _pasted(params, composition, annotations, config))


def _pasted(
    params: ImageParams, composition: Composition, annotations: Annotations, config: ObjectConfig
) -> npt.NDArray[np.bool_]:
    """(M,) bool, objects of the upper layers that are pasted."""
    if composition.paste is None:
        raise AssertionError("nothing is pasted")
    owner = annotations.owner
    # The number of each object among those of its layer, by which it is drawn.
    image, layer = composition.image[owner].astype(np.int64), composition.layer[owner]
    first = np.searchsorted(image * 256 + layer, image * 256 + layer)
    drawn = unit_interval(sequence(composition.paste.keys[owner], np.arange(len(owner)) - first))
    chosen = (layer > 0) & (drawn < composition.paste.share) & ~annotations.crowd
    kept = {"min_visible": config.min_visible, "min_size": config.min_size}
    _, seen = output_boxes(params, annotations.boxes, owner, **kept)
    return np.asarray(chosen & seen)


def covered_objects(objects: BatchObjects, params: ImageParams, config: ObjectConfig) -> BatchObjects:
    """The objects of P parts without what pasted objects cover of the lowest layer."""
    composition = params.composition
    if composition is None or composition.paste is None:
        return objects
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


def _cover(columns: dict[str, Any], k: int, mask: Masks, min_left: float, min_size: float) -> bool:
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


def _hide_points(points: npt.NDArray[np.float64], mask: Masks) -> None:
    """Mark visible keypoints, (K, 3), that ``mask`` covers as labelled and hidden."""
    at = np.floor(points[:, :2]).astype(np.int64).clip(0, (mask.shape[1] - 1, mask.shape[0] - 1))
    points[(points[:, 2] == 2) & (mask[at[:, 1], at[:, 0]] != 0), 2] = 1
