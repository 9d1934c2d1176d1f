"""Geometry of a batch along the axes, between two transforms: rectangles of the source, sizes and flips.

Arrays over axes have shape (2, N): the vertical axis first, then the horizontal one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..geometry.interpolation import SUPPORT, Interpolation
from .sample_arrays import put_arrays, taken_arrays

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]


@dataclass(kw_only=True)
class GeometryState:
    """Which part of the source N images show, and in which size.

    Sizes of images in between are integers, as in torchvision; positions are not rounded, so a crop of a
    resized image is exact where torchvision would resample twice.
    """

    size: Int  # (2, N) int64, height and width of the images, pixels
    start: Float  # (2, N) float64, where the image's top left corner lies in the source, pixels
    # (2, N) float64, its bottom right corner. Both lie outside of the content where it was padded
    stop: Float
    content_start: Float  # (2, N) float64, the part of the source that is still seen: top left corner
    content_stop: Float  # (2, N) float64, bottom right corner
    limit_start: Float  # (2, N) float64, integers: the part of the source that resampling may read
    limit_stop: Float  # (2, N) float64, integers
    # (2, N) bool, whether the image is mirrored vertically and horizontally, after all the rest
    flip: npt.NDArray[np.bool_]
    # (N,) uint8, :class:`Interpolation` of the last resize; None where all are bilinear
    interpolation: npt.NDArray[np.uint8] | None = None
    # Interpolations that a sample of any batch may have; empty before a resize
    chosen: frozenset[Interpolation] = frozenset()

    @classmethod
    def of(cls, size: Int) -> GeometryState:
        """Images as they come, of heights and widths, (2, N) int64, pixels."""
        return cls(
            size=size,
            start=np.zeros(size.shape),
            stop=size.astype(np.float64),
            content_start=np.zeros(size.shape),
            content_stop=size.astype(np.float64),
            limit_start=np.zeros(size.shape),
            limit_stop=size.astype(np.float64),
            flip=np.zeros(size.shape, np.bool_),
        )

    def take(self, rows: Rows) -> GeometryState:
        """The geometry of the samples at ``rows``, (M,)."""
        return replace(self, **taken_arrays(self, rows))

    def put(self, rows: Rows, taken: GeometryState) -> None:
        """Give the samples at ``rows`` the geometry ``taken``."""
        if taken.interpolation is not None:
            self.interpolation = self.interpolations()
        self.chosen |= taken.chosen
        put_arrays(self, rows, taken)

    def crop(self, origin: Int, size: Int) -> None:
        """Cut out ``size`` pixels at ``origin``, both (2, N) or (2, 1); pad what lies outside."""
        if self.flip.any():
            origin = np.where(self.flip, self.size - size - origin, origin)
        scale = (self.stop - self.start) / self.size
        self.start, self.stop = self.start + origin * scale, self.start + (origin + size) * scale
        self.size = np.broadcast_to(size, self.size.shape)
        self.content_start = np.maximum(self.content_start, self.start)
        self.content_stop = np.minimum(self.content_stop, self.stop)

    def resize(self, size: Int, interpolation: Interpolation) -> None:
        """Resample to ``size`` pixels, (2, N) or (2, 1), reading nothing that was cut away before.

        The interpolation of the last resize counts, because there is only one resampling.
        """
        if interpolation != Interpolation.BILINEAR or self.interpolation is not None:
            self.interpolation = np.full_like(self.interpolations(), interpolation)
        self.chosen = frozenset({interpolation})
        self.limit_start = np.floor(self.content_start)
        self.limit_stop = np.ceil(self.content_stop)
        self.size = np.broadcast_to(size, self.size.shape)

    def map_to_output(
        self, size: tuple[int, int], origin: Float, scale: Float, start: Float, stop: Float
    ) -> None:
        """Map whole sources to an output, which shows them from ``start`` to ``stop``."""
        # origin (2, N), scale (N,), start (2, N), stop (2, N)
        extent = self.size
        output = np.array(size)[:, None]
        self.start, self.stop = -origin / scale, (output - origin) / scale
        seen_start, seen_stop = ((edge.clip(0, output) - origin) / scale for edge in (start, stop))
        self.content_start, self.content_stop = seen_start.clip(0, extent), seen_stop.clip(0, extent)
        self.size = np.broadcast_to(output, extent.shape)

    def mirror(self, where: npt.NDArray[np.bool_], axis: int) -> None:
        """Mirror the images at which ``where``, (N,) bool, is true; ``axis`` is 0 vertical, 1 horizontal."""
        self.flip[axis] ^= where

    def interpolations(self) -> npt.NDArray[np.uint8]:
        """The interpolation of each image, (N,)."""
        if self.interpolation is None:
            return np.full(self.size.shape[1], Interpolation.BILINEAR, np.uint8)
        return self.interpolation

    def dest(self, canvas: Int) -> tuple[Int, Int]:
        """Corners of the content in the image before mirroring, (2, N) int64 each.

        ``canvas``, (2, N), is the size of the image that this geometry fills.
        """
        scale = canvas / (self.stop - self.start)
        start = np.rint((self.content_start - self.start) * scale)
        stop = np.rint((self.content_stop - self.start) * scale)
        return start.astype(np.int64), stop.astype(np.int64)

    def reach(self, dest_size: Int) -> tuple[Float, Float]:
        """The pixels of the source that resampling reads: corners, integers.

        The filter reaches ``SUPPORT`` pixels to both sides, of the source or of the output, whichever are
        larger.
        """
        support = np.maximum((self.content_stop - self.content_start) / dest_size, 1.0)
        support *= SUPPORT[self.interpolations()]
        start = np.maximum(self.limit_start, np.floor(self.content_start - support))
        stop = np.minimum(self.limit_stop, np.ceil(self.content_stop + support))
        return start, stop

    def blank(self, where: npt.NDArray[np.bool_]) -> None:
        """Let the images at which ``where``, (N,) bool, is true show the source's first pixel."""
        for corner in (self.start, self.content_start, self.limit_start):
            corner[:, where] = 0
        for corner in (self.stop, self.content_stop, self.limit_stop):
            corner[:, where] = 1
