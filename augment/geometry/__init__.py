"""Geometry of boxes, keypoints and masks under the parameters of their image.

The functions that users call to move annotations of their own are names of this package.
"""

from __future__ import annotations

from .annotations import transform_boxes, transform_keypoints, transform_mask
from .boxes import Objects, convert_boxes
from .segments import mask_boxes, transform_segments

__all__ = [
    "Objects",
    "convert_boxes",
    "mask_boxes",
    "transform_boxes",
    "transform_keypoints",
    "transform_mask",
    "transform_segments",
]
