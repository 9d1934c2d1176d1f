"""Annotations of images that are made of several samples, from those of their parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.augment.params import Composition
from stoker.errors import SampleError

from .objects import BatchObjects

Mask = npt.NDArray[np.integer[Any]]


def composed_objects(objects: BatchObjects, composition: Composition) -> BatchObjects:
    """The objects of N images, from those of their P parts: part by part, so that no object is lost."""
    return BatchObjects(composition.image[objects.owner].astype(np.int64), objects.columns)


def composed_masks(masks: Mask, composition: Composition, ignore: int) -> Mask:
    """Class masks of N images, (N, H, W), from those of their P parts, (P, H, W).

    Parts of one layer have no pixel in common, and are ``ignore`` where they show nothing.
    """
    composed: Mask = np.full((composition.count, *masks.shape[1:]), ignore, masks.dtype)
    for part in np.flatnonzero(composition.shown).tolist():
        np.copyto(composed[composition.image[part]], masks[part], where=masks[part] != ignore)
    return composed


def composed_errors(errors: dict[int, SampleError], composition: Composition) -> dict[int, SampleError]:
    """Errors by the index of an image, from those by the index of a part: the first of each image."""
    of_images: dict[int, SampleError] = {}
    for part in sorted(errors):
        of_images.setdefault(int(composition.image[part]), errors[part])
    return of_images
