"""Composition of transforms: what a batch of images looks like while one transform follows another.

A :class:`TransformState` holds no pixels. Geometry is kept as rectangles of the source, so that any sequence
of crops, resizes and flips ends in one resampling; colour is kept as one affine map where it can be
(:mod:`stoker.augment.state.color_map`).

Arrays over axes have shape (2, N): the vertical axis first, then the horizontal one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker.errors import ConfigError

from ..geometry.interpolation import SUPPORT, Interpolation
from .color_map import UNCHANGED, ColorMap
from .padding_state import PaddingState
from .warp_state import WarpState

if TYPE_CHECKING:
    from collections.abc import Sequence
    from enum import Enum

    import numpy.typing as npt

    from ..geometry.boxes import Objects
    from ..params.optional_params import Border
    from ..transforms.base import Size

    Int = npt.NDArray[np.int64]
    Float = npt.NDArray[np.float64]
    Rows = npt.NDArray[np.int64]
    Keys = npt.NDArray[np.uint64]

__all__ = ["TransformState"]

_BY_AXIS = (
    "size",
    "start",
    "stop",
    "content_start",
    "content_stop",
    "limit_start",
    "limit_stop",
    "flip",
    "canvas",
    "tile",
    "origin",
)
"""Arrays whose second axis is that of the samples."""


@dataclass(kw_only=True)
class TransformState(ColorMap, WarpState, PaddingState):
    """N images in the middle of their transforms.

    Sizes of images in between are integers, as torchvision has them; positions are not rounded, so
    a crop of a resized image is exact where torchvision would resample twice.

    Attributes:
        start: (2, N) float64, where the image's top left corner lies in the source, pixels.
        stop: (2, N) float64, its bottom right corner. Outside of the content where it was padded.
        content_start: (2, N) float64, the part of the source that is still seen: top left corner.
        content_stop: (2, N) float64, bottom right corner.
        limit_start: (2, N) float64, integers: the part of the source that resampling may read.
        limit_stop: (2, N) float64, integers.
        flip: (2, N) bool, mirrored vertically, horizontally, after all the rest.
        settled: Whether no crop or resize may follow, for a step refers to the size.
        erased: Origin and size, (2, N) int64 each, of boxes that are overwritten at the end, and for noise
            its keys, (N,) uint64, or None.
        interpolation: (N,) uint8, :class:`Interpolation` of the last resize; None where all are bilinear.
        fill: (3,) uint8, RGB of what was padded; black unless :meth:`use_fill` said otherwise.
        fill_chosen: Whether it did.
        objects: Where objects lie in the source; None where they are not known.
        window: Corners, (2, N) float64 each, of the part of the source in which the centre of an object's
            box must lie for it to remain; None for no such condition.
    """

    start: Float
    stop: Float
    content_start: Float
    content_stop: Float
    limit_start: Float
    limit_stop: Float
    flip: npt.NDArray[np.bool_]
    fill: npt.NDArray[np.uint8]
    interpolation: npt.NDArray[np.uint8] | None = None
    settled: bool = False
    fill_chosen: bool = False
    erased: list[tuple[Int, Int, Keys | None]] = field(default_factory=list)
    objects: Objects | None = None
    window: tuple[Float, Float] | None = None

    @classmethod
    def of(
        cls,
        height: npt.NDArray[np.integer],
        width: npt.NDArray[np.integer],
        objects: Objects | None = None,
    ) -> TransformState:
        """Images as they come: (N,) heights and widths in pixels, after the EXIF orientation."""
        size = np.array((height, width), np.int64)
        return cls(
            size=size,
            start=np.zeros(size.shape),
            stop=size.astype(np.float64),
            content_start=np.zeros(size.shape),
            content_stop=size.astype(np.float64),
            limit_start=np.zeros(size.shape),
            limit_stop=size.astype(np.float64),
            flip=np.zeros(size.shape, np.bool_),
            color=np.tile(UNCHANGED, (size.shape[1], 1, 1)),
            fill=np.zeros(3, np.uint8),
            objects=objects,
        )

    def take(self, rows: Rows) -> TransformState:
        """The samples at ``rows``, (M,) integers, as a frame of their own; see :meth:`put`."""
        by_axis: dict[str, Any] = {}
        for name in _BY_AXIS:
            array = getattr(self, name)
            by_axis[name] = None if array is None else array[:, rows]
        return replace(
            self,
            **by_axis,
            color=self.color[rows],
            interpolation=None if self.interpolation is None else self.interpolation[rows],
            warp=None if self.warp is None else self.warp[rows],
            nearest=None if self.nearest is None else self.nearest[rows],
            window=None if self.window is None else (self.window[0][:, rows], self.window[1][:, rows]),
            objects=None if self.objects is None else self.objects.take(rows),
            steps=[],
            erased=[],
        )

    def put(self, rows: Rows, taken: TransformState) -> None:
        """Give the samples at ``rows`` back, after further transforms."""
        n = self.size.shape[1]
        self.put_warp(rows, taken)
        for one, other in ((self, taken), (taken, self)):
            if one.mode is None and other.mode is not None:
                one.surround(other.mode, 0, 0)
        if taken.mode != self.mode:
            raise ConfigError(f"padding_mode={taken.mode!r} and {self.mode!r}", hint="Use one padding_mode.")
        for name in _BY_AXIS:
            array, part = getattr(self, name), getattr(taken, name)
            if part is not None:
                setattr(self, name, _filled(array, rows, part))
        if taken.interpolation is not None:
            self.interpolation = self._interpolations()
            self.interpolation[rows] = taken.interpolation
        if taken.window is not None:
            window = self.window or (np.full((2, n), -np.inf), np.full((2, n), np.inf))
            self.window = _filled(window[0], rows, taken.window[0]), _filled(window[1], rows, taken.window[1])
        self.settled |= taken.settled
        if taken.fill_chosen:
            self.use_fill(taken.fill.tolist())
        self.put_colors(rows, taken)

    def crop(self, origin: Int, size: Int) -> None:
        """Cut out ``size`` pixels at ``origin``, both (2, N) or (2, 1); pad what lies outside."""
        self._check_settled()
        if self.warp is not None:
            if np.any(origin < 0) or np.any(origin + size > self.size):
                raise ConfigError("a crop pads after a warp", hint="Pad before it.")
            self.map_warped(_affine(1, 1, origin[1], origin[0]))
            self.size = np.broadcast_to(size, self.size.shape)
            return
        if self.origin is not None:
            self.crop_border(origin, size)
            return
        if self.flip.any():
            origin = np.where(self.flip, self.size - size - origin, origin)
        scale = (self.stop - self.start) / self.size
        self.start, self.stop = self.start + origin * scale, self.start + (origin + size) * scale
        self.size = np.broadcast_to(size, self.size.shape)
        self.content_start = np.maximum(self.content_start, self.start)
        self.content_stop = np.minimum(self.content_stop, self.stop)

    def surround(self, mode: str, before: Int | int, after: Int | int) -> None:
        """See :class:`PaddingState`."""
        self._check_settled()
        if self.warp is not None:
            raise ConfigError("an image is padded after a warp", hint="Pad before it.")
        super().surround(mode, before, after)

    def use_fill(self, color: int | Sequence[int]) -> None:
        """Choose the colour, RGB or one level, of padding: one for all that is padded."""
        fill = np.full(3, color, np.uint8)
        if self.fill_chosen and np.any(fill != self.fill):
            found, before = tuple(fill.tolist()), tuple(self.fill.tolist())
            raise ConfigError(f"fill {found} after a fill {before}", hint="Use one fill.")
        self.fill, self.fill_chosen = fill, True

    def resize(self, size: Int, interpolation: str | Enum = "bilinear") -> None:
        """Resample to ``size`` pixels, (2, N) or (2, 1), reading nothing that was cut away before.

        The interpolation of the last resize is that of all: there is but one resampling. What is warped is
        resampled as :class:`stoker.augment.params.optional_params.Warp` says; behind a warp all but
        "nearest" is bilinear.
        """
        self._check_settled()
        number = Interpolation.of(interpolation)
        if self.warp is not None:
            scale = self.size / size
            self.map_warped(_affine(scale[1], scale[0], 0, 0), number == Interpolation.NEAREST)
            self.size = np.broadcast_to(size, self.size.shape)
            return
        self.refuse_border("a resize")
        if number != Interpolation.BILINEAR or self.interpolation is not None:
            self.interpolation = np.full_like(self._interpolations(), number)
        self.limit_start = np.floor(self.content_start)
        self.limit_stop = np.ceil(self.content_stop)
        self.size = np.broadcast_to(size, self.size.shape)

    def _interpolations(self) -> npt.NDArray[np.uint8]:
        """A copy of the interpolation of each image, (N,)."""
        if self.interpolation is None:
            return np.full(self.size.shape[1], Interpolation.BILINEAR, np.uint8)
        return np.array(self.interpolation)

    def mirror(self, where: npt.NDArray[np.bool_], axis: int) -> None:
        """Mirror the images ``where``, (N,) bool, is true, along ``axis``: 0 vertical, 1 horizontal."""
        if self.warp is None:
            self.flip[axis] ^= where
            self.mirror_border(where, axis)
            return
        sign, shift = np.where(where, -1, 1), np.where(where, self.size[axis], 0)
        self.map_warped(_affine(1, sign, 0, shift) if axis == 0 else _affine(sign, 1, shift, 0))

    def widen(self, size: Int) -> None:
        """Let what is warped show more, or less, around the same centre: ``size``, (2, N)."""
        self._check_settled()
        margin = (self.size - size) / 2
        self.map_warped(_affine(1, 1, margin[1], margin[0]))
        self.size = size

    def settle(self) -> None:
        """From here on the size must stay: a step refers to the output's size."""
        self.settled = True

    def _check_settled(self) -> None:
        if self.settled:
            raise ConfigError(
                "a crop or resize stands after AugMix, which mixes images of the output's size",
                hint="Put AugMix behind all crops and resizes; flips, warps and colours may follow it.",
            )

    def erase(self, origin: Int, size: Int, noise: Keys | None = None) -> None:
        """Overwrite a box at the very end: ``origin`` and ``size``, (2, N); size 0 for none.

        ``noise``, (N,) uint64, has the keys of the noise that comes there.
        """
        self.erased.append((origin, size, noise))

    def close_border(self, size: Size) -> Border | None:
        """Become what images, or canvases, of ``size`` show of the tile, each row once; without any warp."""
        if self.tile is None:
            return None
        border, low, extent = self.border(size)
        self.size, self.origin, self.warp, self.canvas = self.tile, None, None, None
        self.crop(low, extent)
        return border

    def dest(self) -> tuple[Int, Int]:
        """Where the content comes to lie in the canvas, before mirroring: corners, (2, N) int64 each."""
        canvas = self.size if self.canvas is None else self.canvas
        scale = canvas / (self.stop - self.start)
        start = np.rint((self.content_start - self.start) * scale)
        stop = np.rint((self.content_stop - self.start) * scale)
        return start.astype(np.int64), stop.astype(np.int64)

    def blank(self, where: npt.NDArray[np.bool_]) -> None:
        """Make the images ``where``, (N,) bool, is true uniformly ``fill``, for nothing of them is left.

        Their colour map forgets the pixels, so that an engine needs no notion of an empty image: it
        resamples the source's first pixel to no effect.
        """
        for corner in (self.start, self.content_start, self.limit_start):
            corner[:, where] = 0
        for corner in (self.stop, self.content_stop, self.limit_stop):
            corner[:, where] = 1
        for i in np.flatnonzero(where).tolist():
            pixels = self.fill[None, None]
            for step in self.steps:
                pixels = step.run(i, pixels)
            self.color[i, :, 3] += (self.color[i, :, :3] + self.color[i, :, 4:]) @ pixels[0, 0]
        self.color[where, :, :3] = self.color[where, :, 4:] = 0

    def reach(self, dest_size: Int) -> tuple[Float, Float]:
        """The pixels of the source that resampling reads: corners, integers.

        The filter reaches as many pixels, or output pixels where those are larger, to both sides as
        its ``SUPPORT`` says.
        """
        support = np.maximum((self.content_stop - self.content_start) / dest_size, 1.0)
        support *= SUPPORT[self._interpolations()]
        start = np.maximum(self.limit_start, np.floor(self.content_start - support))
        stop = np.minimum(self.limit_stop, np.ceil(self.content_stop + support))
        return start, stop


def _filled(array: npt.NDArray[Any], rows: Rows, part: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A copy of an array over axes in which the samples at ``rows`` are those of ``part``."""
    array = array.copy()
    array[:, rows] = part
    return array


def _affine(scale_x: Any, scale_y: Any, shift_x: Any, shift_y: Any) -> Float:
    """(N, 3, 3) matrices from numbers and (N,) arrays; (1, 3, 3) from numbers alone."""
    n = np.broadcast(scale_x, scale_y, shift_x, shift_y, [0]).size
    matrix = np.zeros((n, 3, 3))
    matrix[:, 0, 0], matrix[:, 1, 1], matrix[:, 2, 2] = scale_x, scale_y, 1
    matrix[:, 0, 2], matrix[:, 1, 2] = shift_x, shift_y
    return matrix
