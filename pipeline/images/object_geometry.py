"""Boxes and keypoints of a batch: what ``transform`` gives, in C++ where nothing is warped.

For a hundred boxes NumPy's calls are the cost, and not what they do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stoker import _native
from stoker.augment.geometry.transform import shown, transform_boxes, transform_keypoints

if TYPE_CHECKING:
    import numpy.typing as npt

    from stoker.augment.params.image_params import ImageParams

    Float = npt.NDArray[np.float64]
    Owner = npt.NDArray[np.int64]

__all__ = ["place_boxes", "place_keypoints"]


def place_boxes(
    params: ImageParams,
    boxes: npt.NDArray[np.float32],
    owner: Owner,
    *,
    min_visible: float = 0.0,
    min_size: float = 0.0,
) -> tuple[Float, npt.NDArray[np.bool_]]:
    """Boxes of the output, XYXY, and which to keep: see :func:`transform_boxes`."""
    if params.warp is not None or params.border is not None:
        return transform_boxes(params, boxes, owner, min_visible=min_visible, min_size=min_size)
    return _native.place_boxes(
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


def place_keypoints(
    params: ImageParams, keypoints: npt.NDArray[np.float32], owner: Owner, swap: tuple[int, ...]
) -> Float:
    """Keypoints of the output: see :func:`stoker.augment.geometry.transform.transform_keypoints`."""
    if params.warp is not None or params.border is not None:
        return transform_keypoints(params, keypoints, owner, swap or None)
    exchanged = np.array(swap, np.int64) if swap else None
    return _native.place_keypoints(
        keypoints, owner, params.size, params.region, params.dest, params.flip, shown(params), exchanged
    )
