"""Views: several images of each sample, which a loader hands out as one column.

A loader takes a mapping of names to views in place of a list of transforms. Every view draws its own
parameters: :func:`view_keys` turns the keys of the samples into those of their views.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stoker.random import hash_words

from .description import Description, is_count
from .patch_masks import PatchMask


@dataclass(frozen=True)
class Views(Description):
    """Several views of each sample: images of one size by the same transforms, each drawn independently.

    A loader hands them out as one column, (count, N, 3, H, W): ``column[0]`` is the batch of the first views.

    Args:
        count: Views of each sample, from 1. None for one image without an axis of views, (N, 3, H, W), as a
            list of transforms makes it.
        transforms: Transforms of images; all images must leave them in one size. Transforms of batches and
            your own functions cannot be among them.
        mask: Patches to hide in each view, such as :class:`BlockMask`; None for none. The masks are a
            separate column, ``<name>_mask``, (count, N, rows, columns) bool, True for a hidden patch.
    """

    count: int | None
    transforms: Sequence[Description]
    mask: PatchMask | None = None

    def __post_init__(self) -> None:
        self.check("count", self.count is None or is_count(self.count), "a positive integer or None")
        is_list = isinstance(self.transforms, Sequence) and not isinstance(self.transforms, str)
        self.check("transforms", is_list, "a list of transforms")
        is_mask = self.mask is None or isinstance(self.mask, PatchMask)
        self.check("mask", is_mask, "a BlockMask, a RandomMask or None")
        self.set("count", self.count and int(self.count))
        self.set("transforms", tuple(self.transforms))


def view_keys(keys: npt.NDArray[np.int64], name: str, count: int) -> npt.NDArray[np.int64]:
    """Keys of the random numbers of all views of N samples, (count * N,) int64, view by view.

    They depend only on the sample's key, the name of the column and the number of the view, so a view draws
    the same parameters with any other views beside it.
    """
    # keys (N,) int64
    word = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
    drawn = [hash_words((word, view), keys) for view in range(count)]
    return np.concatenate(drawn).view(np.int64)
