"""Copies of what workers have made, in the memory of this process."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker._native import BufferPool

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Allocate = Callable[[tuple[int, ...], str], npt.NDArray[Any]]

_KEPT = 4  # requests whose memory is kept for others


class ImageMemory:
    """Memory for images, used again because fresh pages cost more than the copy."""

    def __init__(self, allocate: Allocate | None) -> None:
        self._allocate = allocate
        self._pool = BufferPool(_KEPT)

    def copy(self, answer: Any) -> Any:
        """Copy an answer out of Ray's store, where it is read-only and takes room until it is dropped."""
        batches = getattr(answer, "batches", ())
        arrays = [array for batch in batches for array in getattr(batch, "images", ())]
        self._pool.keep_at_least(_KEPT * len(arrays))
        return deepcopy(answer, {id(array): self._copied(array) for array in arrays})

    def _copied(self, images: Any) -> Any:
        """Copies of images; unfinished images are finished on the way."""
        empty = self._allocate or self._pool.array
        if hasattr(images, "finish"):
            return images.finish(empty)
        copied = empty(images.shape, images.dtype.name)
        np.copyto(copied, images)
        return copied
