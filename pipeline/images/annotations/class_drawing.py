"""Class masks drawn from the masks of objects, one class for each pixel.

:mod:`.annotation_processor` calls it for the column "segmentation" of a dataset without stored class masks.
The rule is that of ``ConvertCocoPolysToMask`` in torchvision's references for segmentation, which train
DeepLab on COCO: a pixel has the class of the only object that covers it, and the value to ignore if several
objects cover it. Here crowds are also ignored.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.augment.geometry.annotations import displace_masks, transform_mask
from stoker.augment.geometry.masks import decode_runs, fill_polygons
from stoker.augment.params import ImageParams
from stoker.formats.dataset.annotations import Annotations

from .mask_drawing import MaskMemory, draw_segments

Ints = npt.NDArray[np.integer[Any]]
Mask = npt.NDArray[np.integer[Any]]

_OBJECTS = 64  # drawn at a time: the mask of an object has as many bytes as an output has pixels


def draw_classes(
    annotations: Annotations,
    params: ImageParams,
    height: Ints,
    width: Ints,
    *,
    dtype: str,
    ignore: int,
    memory: MaskMemory,
) -> Mask:
    """Class masks of images after their transforms."""
    # height (N,), width (N,) -> (N, H, W)
    masks: Mask = np.full((len(params), *params.size), ignore, dtype)
    if params.border is None:
        _draw(annotations, params, (height, width), masks, ignore=ignore, memory=memory)
    else:  # padding that continues the image shows objects again, and polygons are drawn once
        for i, size in enumerate(zip(height.tolist(), width.tolist(), strict=True)):
            source = _draw_source(annotations, i, size, dtype, ignore)
            masks[i] = transform_mask(params, i, source, ignore)
    return displace_masks(params, masks, np.arange(len(masks)), ignore)


def _draw(
    annotations: Annotations,
    params: ImageParams,
    sizes: tuple[Ints, Ints],
    masks: Mask,
    *,
    ignore: int,
    memory: MaskMemory,
) -> None:
    """Draw class masks in the output into ``masks``, (N, H, W), which hold ``ignore``."""
    whole = [[np.array([(0, 0), (w, 0), (w, h), (0, h)])] for h, w in zip(*sizes, strict=True)]
    shown = draw_segments(params, np.arange(len(params)), *sizes, polygons=whole, memory=memory)
    np.copyto(masks, 0, where=shown.view(np.bool_))
    for start in range(0, len(annotations), _OBJECTS):
        part = annotations.take(np.arange(start, min(start + _OBJECTS, len(annotations))))
        drawn = draw_segments(
            params, part.owner, *sizes, polygons=part.polygons, runs=part.runs, memory=memory
        )
        for covered, i, value in zip(drawn, part.owner.tolist(), _values(part, ignore), strict=True):
            _add(masks[i], covered.view(np.bool_), value, ignore)


def _draw_source(annotations: Annotations, i: int, size: tuple[int, int], dtype: str, ignore: int) -> Mask:
    """The class mask of sample ``i``, of the ``size`` of its source."""
    part = annotations.take(annotations.owner == i)
    mask: Mask = np.zeros(size, dtype)
    for k, value in enumerate(_values(part, ignore)):
        covered = fill_polygons(part.polygons[k] if part.polygons else [], size)
        if part.runs and len(part.runs[k]):
            covered |= decode_runs(part.runs[k], size)
        _add(mask, covered.view(np.bool_), value, ignore)
    return mask


def _values(objects: Annotations, ignore: int) -> list[int]:
    """The values of objects in a mask."""
    values: list[int] = np.where(objects.crowd, ignore, objects.labels + 1).tolist()
    return values


def _add(mask: Mask, covered: npt.NDArray[np.bool_], value: int, ignore: int) -> None:
    """Draw an object into a mask; ``covered`` says where it lies."""
    again = covered & (mask != 0)
    np.copyto(mask, value, where=covered)
    np.copyto(mask, ignore, where=again)
