"""Copies of what workers have made, in the memory of this process."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from stoker._native import BufferPool

__all__ = ["OwnMemory"]

_KEPT = 4  # arrays whose memory is kept for others


class OwnMemory:
    """Memory for images, which is used again once a batch is dropped: fresh pages cost more than the copy."""

    def __init__(self) -> None:
        self._pool = BufferPool(_KEPT)

    def copy(self, made: Any) -> Any:
        """Copy what Ray has read-only in its store, where it takes room until the last array is dropped."""
        copies = {}
        for array in getattr(made, "images", ()):
            copies[id(array)] = self._own(array)
        return deepcopy(made, copies)

    def _own(self, images: Any) -> Any:
        """Copies of images; unfinished images are finished on the way."""
        if hasattr(images, "finish"):
            return images.finish(self._pool.array)
        own = self._pool.array(images.shape, images.dtype.name)
        np.copyto(own, images)
        return own
