"""Objects of a batch between two transforms: their boxes, and which of them remain.

Arrays over axes have shape (2, N): the vertical axis first, then the horizontal one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..geometry.boxes import Objects
from .geometry_state import GeometryState
from .sample_arrays import put_arrays, taken_arrays

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]


@dataclass(kw_only=True)
class ObjectState:
    """Objects of N images."""

    in_source: Objects | None  # Boxes of the objects in the source; None where they are not known
    window_start: Float  # (2, N) float64, top left corner of a window in the source
    window_stop: Float  # (2, N) float64, its bottom right corner
    # Whether a transform restricts the window, even if it does so for no image of this batch
    restricted: bool = False

    @classmethod
    def of(cls, in_source: Objects | None, n: int) -> ObjectState:
        """Objects of ``n`` images, all of which remain."""
        return cls(
            in_source=in_source,
            window_start=np.full((2, n), -np.inf),
            window_stop=np.full((2, n), np.inf),
        )

    def take(self, rows: Rows) -> ObjectState:
        """The objects of the samples at ``rows``, (M,)."""
        in_source = None if self.in_source is None else self.in_source.take(rows)
        return replace(self, in_source=in_source, **taken_arrays(self, rows))

    def put(self, rows: Rows, taken: ObjectState) -> None:
        """Give the samples at ``rows`` the conditions of ``taken``."""
        self.restricted |= taken.restricted
        put_arrays(self, rows, taken)

    def seen(self, geometry: GeometryState) -> tuple[Float, Int]:
        """Visible parts of the boxes, (M, 4) XYXY in the images as they are now, and their owners, ascending.

        Boxes that are not visible, and objects that do not remain, are left out.
        """
        if self.in_source is None:
            return np.zeros((0, 4)), np.zeros(0, np.int64)
        order = np.argsort(self.in_source.owner, kind="stable")
        owner, boxes = self.in_source.owner[order], self.in_source.boxes[order]
        low, high = boxes[:, 1::-1].T, boxes[:, :1:-1].T
        center = (low + high) / 2
        low = np.maximum(low, geometry.content_start[:, owner])
        high = np.minimum(high, geometry.content_stop[:, owner])
        inside = (self.window_start[:, owner] < center) & (center < self.window_stop[:, owner])
        seen = np.all((low < high) & inside, axis=0)
        size, start = geometry.size[:, owner], geometry.start[:, owner]
        scale = size / (geometry.stop[:, owner] - start)
        low, high = (low - start) * scale, (high - start) * scale
        flip = geometry.flip[:, owner]
        low, high = np.where(flip, size - high, low), np.where(flip, size - low, high)
        return np.concatenate((low[::-1], high[::-1])).T[seen], owner[seen]

    def restrict(self, where: npt.NDArray[np.bool_], geometry: GeometryState) -> None:
        """Drop objects whose centres are now outside of their image, in images with ``where``, (N,) bool."""
        start = np.maximum(self.window_start, geometry.start)
        stop = np.minimum(self.window_stop, geometry.stop)
        self.window_start = np.where(where, start, self.window_start)
        self.window_stop = np.where(where, stop, self.window_stop)
        self.restricted = True
