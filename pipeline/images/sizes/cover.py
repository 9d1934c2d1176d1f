"""The crop that images get where the transforms have none."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.augment.transforms.base import Transform
from stoker.augment.transforms.geometry.cover_crop import CoverCrop

from ..columns.image_column import Transforms

__all__ = ["cover_by_default"]

_ANY = (64, 64)  # which the size of the batch replaces


def cover_by_default(transforms: Transforms, *, random: bool) -> Transforms:
    """The same transforms, after a CoverCrop if no transform gives images a size.

    Args:
        transforms: The loader's argument.
        random: Whether the crop lies anywhere, or in the centre.
    """
    if isinstance(transforms, Mapping) or any(
        isinstance(one, Transform) and one.with_size(_ANY) for one in transforms
    ):
        return transforms
    return [CoverCrop(_ANY, random=random), *transforms]
