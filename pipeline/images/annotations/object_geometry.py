"""Boxes and keypoints of a batch under its transforms: in C++, or in NumPy for images that C++ does not take.

For a hundred boxes the call of NumPy costs more than the computation. Both give the same numbers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker.augment.geometry.annotations import shown, transform_boxes, transform_keypoints
from stoker.augment.geometry.boxes import Objects
from stoker.augment.params import ImageParams
from stoker.formats.dataset.annotations import Annotations

Float = npt.NDArray[np.float64]
Owner = npt.NDArray[np.int64]


def deciding_objects(annotations: Annotations) -> Objects:
    """The boxes by which transforms decide, such as RandomIoUCrop: those of objects, not of groups."""
    single = ~annotations.crowd
    return Objects(annotations.boxes[single].astype(np.float64), annotations.owner[single])


def output_boxes(
    params: ImageParams,
    boxes: npt.NDArray[np.float32],
    owner: Owner,
    *,
    min_visible: float = 0.0,
    min_size: float = 0.0,
) -> tuple[Float, npt.NDArray[np.bool_]]:
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
    params: ImageParams, keypoints: npt.NDArray[np.float32], owner: Owner, swap: tuple[int, ...]
) -> Float:
    """Keypoints of the output, (M, K, 3) float64; see :func:`transform_keypoints`."""
    if _is_general(params):
        return transform_keypoints(params, keypoints, owner, swap or None)
    exchanged = np.array(swap, np.int64) if swap else None
    return _native.transform_keypoints(
        keypoints, owner, params.size, params.region, params.dest, params.flip, shown(params), exchanged
    )


def _is_general(params: ImageParams) -> bool:
    """Whether the C++ code lacks what these images need."""
    return params.warp is not None or params.border is not None or params.image_size is not None
