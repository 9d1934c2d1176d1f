"""Batches of images that keep their sizes: padded to the largest, or cut back into a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.types import Layout

IMAGE_SIZE = "image_size"
"""Name of the column of heights and widths of padded images."""


@dataclass(frozen=True)
class Padding:
    """How images of different sizes form a batch."""

    pad_to_multiple_of: int = 1  # The height and the width of a batch are multiples of this, pixels
    ragged: bool = False  # Whether the batch is handed out as a list of images without their padding

    def to_json(self) -> dict[str, Any]:
        """The padding as a dictionary that JSON can hold."""
        return {"ragged": True} if self.ragged else {"padded": self.pad_to_multiple_of}


def cut_images(images: Any, sizes: npt.NDArray[np.int32], layout: Layout) -> list[Any]:
    """A list of the images without their padding; where the framework allows it, views of the batch."""
    # sizes (N, 2)
    if layout == "NCHW":
        return [images[i][:, :height, :width] for i, (height, width) in enumerate(sizes.tolist())]
    return [images[i][:height, :width] for i, (height, width) in enumerate(sizes.tolist())]


def cut_masks(masks: Sequence[Any], sizes: npt.NDArray[np.int32]) -> list[Any]:
    """Masks of each image, (..., H, W), without what belongs to the padding of the image."""
    pairs = zip(masks, sizes.tolist(), strict=True)
    return [one[..., :height, :width] for one, (height, width) in pairs]
