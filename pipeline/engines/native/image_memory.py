"""Memory for the images of batches, which is used again although batches differ in size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt

from ..base import ImageFormat, Work


class ImageMemory:
    """Makes the arrays of batches, each as large as the largest so far of its column of images.

    The pool reuses memory only for arrays of the same number of bytes, and new pages cost more than writing.
    """

    def __init__(
        self, image_format: ImageFormat, empty: Callable[[tuple[int, ...], str], npt.NDArray[Any]]
    ) -> None:
        self._image_format = image_format
        self._empty = empty
        self._most: dict[int, int] = {}

    def arrays(self, work: Work) -> tuple[npt.NDArray[Any], ...]:
        """The arrays of a batch, C-contiguous, with undefined contents."""
        shapes = [self._image_format.shape(params.image_count, params.size) for params in work.columns]
        return tuple(self._array(column, shape) for column, shape in enumerate(shapes))

    def _array(self, column: int, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        count, dtype = math.prod(shape), self._image_format.numpy_dtype
        self._most[column] = most = max(count, self._most.get(column, 0))
        if count == most:
            return self._empty(shape, dtype)
        return self._empty((most,), dtype)[:count].reshape(shape)


def clear_images(work: Work, arrays: Sequence[npt.NDArray[Any]], i: int) -> None:
    """Write zeros into all images of sample ``i`` of a batch, or into the image that it is a part of."""
    if composition := work.params.composition:
        arrays[0][composition.image[i]] = 0
        return
    for array in arrays:
        array[i :: len(work.samples)] = 0
