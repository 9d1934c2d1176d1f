"""Geometry of boxes, keypoints and masks under the parameters of their image.

Users call the functions of this package to move their own annotations.
"""

from __future__ import annotations

from .annotations import transform_boxes, transform_keypoints, transform_mask
from .boxes import Objects, convert_boxes
from .masks import mask_boxes, transform_segments

__all__ = [
    "Objects",
    "convert_boxes",
    "mask_boxes",
    "transform_boxes",
    "transform_keypoints",
    "transform_mask",
    "transform_segments",
]
