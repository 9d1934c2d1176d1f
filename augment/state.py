"""A batch between two transforms, without pixels: what ``params`` of a transform changes.

Any sequence of crops, resizes and flips ends in one resampling, and colours in one affine map where they can.
Geometry has three stages: rectangles along the axes, then padding that continues the image, then warps. A
crop, resize or flip acts on the last stage so far. Arrays over axes are (2, N), the vertical axis first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError
from stoker.types import Size

from .geometry.boxes import Objects
from .params import (
    WHOLE_SHARE,
    Border,
    Channels,
    Composition,
    Erase,
    ImageParams,
    MeanImage,
    Noise,
    Parts,
    Paste,
    Warp,
)
from .resampling import SUPPORT, Interpolation
from .steps import Affine, Step

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]
Keys = npt.NDArray[np.uint64]
Share = npt.NDArray[np.int32]

GREY = np.array([0.2989, 0.587, 0.114])  # weights of R, G and B: torchvision's, ITU-R BT.601, rounded
MODES = ("edge", "reflect", "symmetric")  # how padding can continue an image
_UNCHANGED = np.eye(3, 7)  # the map that changes no colour

S = TypeVar("S", bound="_Samples")


@dataclass
class _Samples:
    """Arrays of N samples: their last axis is N, or the first one where ``leading`` names them."""

    leading: ClassVar[frozenset[str]] = frozenset()

    def take(self: S, rows: Int) -> S:
        """The samples at ``rows``, (M,)."""
        arrays = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        return replace(self, **{name: array[self._index(name, rows)] for name, array in arrays.items()})

    def put(self: S, rows: Int, taken: S) -> None:
        """Replace the samples at ``rows`` by ``taken``; flags that either has set hold for both."""
        for name, value in vars(taken).items():
            if isinstance(value, np.ndarray):
                array = getattr(self, name).copy()
                array[self._index(name, rows)] = value
                setattr(self, name, array)
            elif isinstance(value, (bool, frozenset)):
                setattr(self, name, getattr(self, name) | value)

    def _index(self, name: str, rows: Int) -> Any:
        return rows if name in self.leading else (..., rows)


@dataclass(kw_only=True)
class GeometryState(_Samples):
    """Which part of the source N images show along the axes, and in which size; positions are not rounded."""

    size: Int  # (2, N), height and width of the images, pixels
    # (2, N), where the image's top left and bottom right corners lie in the source, pixels: outside of the
    # content where it was padded
    start: Float
    stop: Float
    content_start: Float  # (2, N), corners of the part of the source that is still seen
    content_stop: Float
    limit_start: Float  # (2, N), integers: corners of the part of the source that resampling may read
    limit_stop: Float
    flip: Bool  # (2, N), whether the image is mirrored vertically and horizontally, after all the rest
    # (N,) uint8, :class:`Interpolation` of the last resize; None where all are bilinear
    interpolation: npt.NDArray[np.uint8] | None = None
    # Interpolations that a sample of any batch may have; empty before a resize
    chosen: frozenset[Interpolation] = frozenset()

    @classmethod
    def of(cls, size: Int) -> GeometryState:
        """Images as they come, of heights and widths, (2, N), pixels."""
        zero, whole = np.zeros(size.shape), size.astype(np.float64)
        return cls(
            size=size,
            start=zero,
            stop=whole,
            content_start=zero.copy(),
            content_stop=whole.copy(),
            limit_start=zero.copy(),
            limit_stop=whole.copy(),
            flip=np.zeros(size.shape, np.bool_),
        )

    def put(self, rows: Int, taken: GeometryState) -> None:
        if taken.interpolation is not None:
            self.interpolation = self.interpolations()
        super().put(rows, taken)

    def crop(self, origin: Int, size: Int) -> None:
        if self.flip.any():
            origin = np.where(self.flip, self.size - size - origin, origin)
        scale = (self.stop - self.start) / self.size
        self.start, self.stop = self.start + origin * scale, self.start + (origin + size) * scale
        self.size = np.broadcast_to(size, self.size.shape)
        self.content_start = np.maximum(self.content_start, self.start)
        self.content_stop = np.minimum(self.content_stop, self.stop)

    def resize(self, size: Int, interpolation: Interpolation) -> None:
        if interpolation != Interpolation.BILINEAR or self.interpolation is not None:
            self.interpolation = np.full_like(self.interpolations(), interpolation)
        self.chosen = frozenset({interpolation})
        self.limit_start = np.floor(self.content_start)
        self.limit_stop = np.ceil(self.content_stop)
        self.size = np.broadcast_to(size, self.size.shape)

    def map_to_output(self, size: Size, origin: Float, scale: Float, start: Float, stop: Float) -> None:
        """Map whole sources to an output, which shows them from ``start`` to ``stop``, (2, N) each."""
        output = np.array(size)[:, None]
        self.start, self.stop = -origin / scale, (output - origin) / scale
        self.content_start, self.content_stop = (
            ((edge.clip(0, output) - origin) / scale).clip(0, self.size) for edge in (start, stop)
        )
        self.size = np.broadcast_to(output, self.size.shape)

    def interpolations(self) -> npt.NDArray[np.uint8]:
        """The interpolation of each image, (N,)."""
        if self.interpolation is None:
            return np.full(self.size.shape[1], Interpolation.BILINEAR, np.uint8)
        return self.interpolation

    def dest(self, canvas: Int) -> tuple[Int, Int]:
        """Corners of the content, (2, N) each, in an image of size ``canvas``, (2, N), before mirroring."""
        scale = canvas / (self.stop - self.start)
        start = np.rint((self.content_start - self.start) * scale)
        stop = np.rint((self.content_stop - self.start) * scale)
        return start.astype(np.int64), stop.astype(np.int64)

    def reach(self, dest_size: Int) -> tuple[Float, Float]:
        """Corners, whole pixels, of what resampling reads of the source."""
        # The filter reaches SUPPORT pixels to both sides, of the source or of the output: the larger ones.
        support = np.maximum((self.content_stop - self.content_start) / dest_size, 1.0)
        support *= SUPPORT[self.interpolations()]
        start = np.maximum(self.limit_start, np.floor(self.content_start - support))
        stop = np.minimum(self.limit_stop, np.ceil(self.content_stop + support))
        return start, stop

    def blank(self, where: Bool) -> None:
        """Let the images at which ``where``, (N,), is true show the source's first pixel."""
        for corner in (self.start, self.content_start, self.limit_start):
            corner[:, where] = 0
        for corner in (self.stop, self.content_stop, self.limit_stop):
            corner[:, where] = 1


@dataclass(kw_only=True)
class ObjectState(_Samples):
    """Objects of N images: their boxes, and which of them remain."""

    in_source: Objects | None  # Boxes of the objects in the source; None where they are not known
    window_start: Float  # (2, N), corners of a window in the source, in which the centre of an object remains
    window_stop: Float
    restricted: bool = False  # Whether a transform restricts the window, for any image of any batch

    def take(self, rows: Int) -> ObjectState:
        in_source = None if self.in_source is None else self.in_source.take(rows)
        return replace(super().take(rows), in_source=in_source)

    def seen(self, geometry: GeometryState) -> tuple[Float, Int]:
        """Visible parts of remaining boxes, (M, 4) XYXY in the images as they are now; ascending owners."""
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

    def restrict(self, where: Bool, geometry: GeometryState) -> None:
        """Drop objects whose centres are now outside of their image, in images with ``where``, (N,)."""
        start = np.maximum(self.window_start, geometry.start)
        stop = np.minimum(self.window_stop, geometry.stop)
        self.window_start = np.where(where, start, self.window_start)
        self.window_stop = np.where(where, stop, self.window_stop)
        self.restricted = True


@dataclass(kw_only=True)
class PaddingState(_Samples):
    """Padding around N images that continues them."""

    mode: str  # How they are continued, one of ``MODES``
    size: Int  # (2, N), height and width of the padded images, pixels
    tile: Int  # (2, N), size of the image before it was padded: the tile that is continued
    origin: Int  # (2, N), the row and column with which the image begins, counted from the tile's first

    def put(self, rows: Int, taken: PaddingState) -> None:
        if taken.mode != self.mode:
            raise ConfigError(
                f"transforms have padding_mode={taken.mode!r} and {self.mode!r}",
                hint="Use one padding_mode in a list of transforms.",
            )
        super().put(rows, taken)

    def refuse(self, what: str) -> None:
        """Raise ConfigError: ``what`` cannot follow this padding."""
        raise ConfigError(
            f"{what} stands after padding_mode={self.mode!r}",
            hint="Move it before the padding; crops, flips, warps and colours may follow.",
        )

    def crop(self, origin: Int, size: Int) -> None:
        if np.any(origin < 0) or np.any(origin + size > self.size):
            self.refuse("a crop that pads")
        self.origin = self.origin + origin
        self.size = np.broadcast_to(size, self.size.shape)

    def resize(self, size: Int, interpolation: Interpolation) -> None:
        self.refuse("a resize")

    def mirror(self, where: Bool, axis: int) -> None:
        """Let the images with ``where``, (N,), begin with their other end along ``axis``."""
        end = self.tile[axis] - self.size[axis] - self.origin[axis]
        self.origin[axis] = np.where(where, end, self.origin[axis])

    def border(self, size: Size) -> tuple[Border, Int, Int]:
        """Border of images of ``size``, and the part of the tile that they show: origin and size, (2, N)."""
        shown = [
            continued(origin[:, None] + np.arange(n), extent[:, None], self.mode)
            for origin, extent, n in zip(self.origin, self.tile, size, strict=True)
        ]
        low = np.array([lines.min(axis=1) for lines in shown])
        extent = np.array([lines.max(axis=1) for lines in shown]) + 1 - low
        rows, columns = (np.int32(lines - first[:, None]) for lines, first in zip(shown, low, strict=True))
        origin = np.int32((self.origin - low).T)
        return Border(np.int32(extent.T), origin, rows, columns), low, extent


def continued(padded: Int, extent: Int, mode: str) -> Int:
    """The row or column of an image that each row or column of the padded image shows."""
    # "edge" repeats the last one. The others turn around at each end, repeatedly if the border is wide:
    # "reflect" shows the last one once, "symmetric" twice.
    if mode == "edge":
        return np.asarray(np.clip(padded, 0, extent - 1))
    if mode == "symmetric":
        padded = padded % (2 * extent)
        return np.asarray(np.minimum(padded, 2 * extent - 1 - padded))
    period = np.maximum(2 * extent - 2, 1)
    padded = padded % period
    return np.asarray(np.minimum(padded, period - padded))


@dataclass(kw_only=True)
class WarpState(_Samples):
    """Geometry of N images that is not along the axes, from the first warp on."""

    size: Int  # (2, N), height and width of the warped images, pixels
    canvas: Int  # (2, N), size of the canvas: the image before it was first warped
    matrix: Float  # (N, 3, 3), from homogeneous (x, y, 1) in the image to (x, y, 1) in the canvas
    only_nearest: Bool  # (N,), whether all warps of the sample so far were nearest
    # These three hold for any batch, and are fields of :class:`Warp`
    perspective: bool = False
    may_pick: bool = False  # Whether some transform warps by nearest
    direct: bool = False

    leading: ClassVar[frozenset[str]] = frozenset({"matrix"})

    @classmethod
    def of(cls, size: Int) -> WarpState:
        """Images of ``size``, (2, N), that are not warped yet."""
        matrix = np.tile(np.eye(3), (size.shape[1], 1, 1))
        return cls(size=size, canvas=size, matrix=matrix, only_nearest=np.ones(len(matrix), np.bool_))

    def put(self, rows: Int, taken: WarpState) -> None:
        if np.any(self.canvas[:, rows] != taken.canvas):
            raise ConfigError(
                "some images are warped in another size than the others have",
                hint="Put what changes the size before or after the RandomApply or RandomChoice.",
            )
        super().put(rows, taken)

    def distort(self, matrix: Float, *, perspective: bool, nearest: bool, direct: bool) -> None:
        """Warp by matrices, (N, 3, 3); ``nearest`` picks pixels."""
        self.may_pick |= nearest
        self.perspective |= perspective
        self.direct |= direct
        changes_nothing: Bool = np.all(matrix == np.eye(3), axis=(1, 2))
        self._compose(matrix, changes_nothing | nearest)

    def crop(self, origin: Int, size: Int) -> None:
        if np.any(origin < 0) or np.any(origin + size > self.size):
            raise ConfigError("a crop pads after a warp", hint="Move the padding before the warp.")
        self.cut(origin, size)

    def resize(self, size: Int, interpolation: Interpolation) -> None:
        scale = self.size / size
        self._compose(_affine(scale[1], scale[0], 0, 0), interpolation == Interpolation.NEAREST)
        self.size = np.broadcast_to(size, self.size.shape)

    def mirror(self, where: Bool, axis: int) -> None:
        sign, shift = np.where(where, -1, 1), np.where(where, self.size[axis], 0)
        self._compose(_affine(1, sign, 0, shift) if axis == 0 else _affine(sign, 1, shift, 0))

    def cut(self, origin: Int | Float, size: Int) -> None:
        """Show ``size`` pixels from ``origin`` on, which may lie outside."""
        self._compose(_affine(1, 1, origin[1], origin[0]))
        self.size = np.broadcast_to(size, self.size.shape)

    def params(self, canvas: Size) -> Warp:
        """The warps as parameters, where all canvases have the size ``canvas``."""
        nearest = self.only_nearest if self.may_pick else None
        return Warp(self.matrix, canvas, self.perspective, nearest, self.direct)

    def _compose(self, matrix: Float, nearest: Bool | bool = True) -> None:
        """Compose ``matrix``, (N, 3, 3) or (1, 3, 3), onto the warps; ``nearest`` says which pick pixels."""
        self.matrix = self.matrix @ matrix
        self.only_nearest = np.logical_and(self.only_nearest, nearest)


def _affine(scale_x: Any, scale_y: Any, shift_x: Any, shift_y: Any) -> Float:
    """(N, 3, 3) matrices from numbers and (N,) arrays; (1, 3, 3) from numbers alone."""
    n = np.broadcast(scale_x, scale_y, shift_x, shift_y, [0]).size
    matrix = np.zeros((n, 3, 3))
    matrix[:, 0, 0], matrix[:, 1, 1], matrix[:, 2, 2] = scale_x, scale_y, 1
    matrix[:, 0, 2], matrix[:, 1, 2] = shift_x, shift_y
    return matrix


@dataclass(kw_only=True)
class ColorMap(_Samples):
    """What happens to the colours of N images."""

    # (N, 3, 7), affine map of RGB in 0..255: three columns for the pixel, a constant, three for the mean RGB
    matrix: Float
    uses_mean: bool = False  # Whether ``matrix`` may add the mean RGB, for any sample of any batch
    changed: bool = False  # Whether ``matrix`` may differ from the identity, likewise
    steps: list[Step] = field(default_factory=list)  # What happens to pixels before ``matrix``

    leading: ClassVar[frozenset[str]] = frozenset({"matrix"})

    def take(self, rows: Int) -> ColorMap:
        """The colours of the samples at ``rows``, without steps."""
        return replace(super().take(rows), steps=[])

    def put(self, rows: Int, taken: ColorMap) -> None:
        super().put(rows, taken)
        self.steps += [step.spread(rows, len(self.matrix)) for step in taken.steps]

    def affine(self, matrix: Float) -> None:
        """Apply an affine map of RGB, (3, 4) or (N, 3, 4), after the colours before it."""
        self.linear(matrix[..., :3])
        self.offset(matrix[..., 3])

    def linear(self, matrix: Float, grey_share: Float | None = None) -> None:
        """Apply a linear map of RGB, (3, 3) or (N, 3, 3), after the colours before it."""
        # With ``grey_share``, (N,), that share of the image's mean grey at this point is added. An affine map
        # maps the mean as it maps pixels, so an engine measures the mean RGB once, before all colour.
        mean_grey = None if grey_share is None else GREY @ self.matrix
        self.matrix = matrix @ self.matrix
        self.changed = True
        if mean_grey is not None and grey_share is not None:
            mean_grey[:, 4:] += mean_grey[:, :3]
            mean_grey[:, :3] = 0
            self.matrix += (grey_share[:, None] * mean_grey)[:, None]
            self.uses_mean = True

    def offset(self, constant: Float) -> None:
        """Add a constant to RGB, (3,) or (N, 3), after the colours before it."""
        self.matrix[..., 3] += constant
        self.changed = True

    def add_steps(self, *steps: Step) -> None:
        """Append steps that exclude each other: no sample takes two of one call."""
        # The map of the samples that a step is applied to is rounded here, the map of the others goes on.
        for step in steps:
            step.check(len(self.matrix))
        if self.changed:
            where = np.logical_or.reduce([step.where for step in steps])
            changed = (self.matrix != _UNCHANGED).any(axis=(1, 2))
            self.steps.append(Affine(where & changed, *self.parts()))
            self.matrix = np.where(where[:, None, None], _UNCHANGED, self.matrix)
        self.steps += steps

    def parts(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32] | None]:
        """``color`` and ``mean_matrix`` of :class:`stoker.augment.params.ImageParams`."""
        matrix = self.matrix.astype(np.float32)
        color, mean_matrix = np.ascontiguousarray(matrix[:, :, :4]), np.ascontiguousarray(matrix[:, :, 4:])
        return color, mean_matrix if self.uses_mean else None

    def blank(self, where: npt.NDArray[np.bool_], fill: npt.NDArray[np.uint8]) -> None:
        """Let the maps of images at which ``where``, (N,) bool, is true ignore pixels and return ``fill``."""
        for i in np.flatnonzero(where).tolist():
            pixels = fill[None, None]
            for step in self.steps:
                pixels = step.run(i, pixels)
            self.matrix[i, :, 3] += (self.matrix[i, :, :3] + self.matrix[i, :, 4:]) @ pixels[0, 0]
        self.matrix[where, :, :3] = self.matrix[where, :, 4:] = 0


@dataclass(kw_only=True)
class TransformState:
    """N images in the middle of their transforms, which change it by its methods and by ``color``."""

    geometry: GeometryState  # Which part of the source the images show
    color: ColorMap  # What happens to their colours
    objects: ObjectState  # Where their objects lie
    # (3,) uint8, RGB of constant padding; black unless :meth:`use_fill` has chosen another colour
    fill: npt.NDArray[np.uint8]
    padding: PaddingState | None = None  # What continues the images; None before such padding
    warp: WarpState | None = None  # Geometry that is not along the axes; None before the first warp
    fill_chosen: bool = False  # Whether :meth:`use_fill` has chosen a colour
    fixes_size: str = ""  # Name of a transform that no crop or resize may follow; empty for none
    # Boxes that are overwritten at the end: origin and size, (2, N) each, and keys of noise, (N,), or None
    erased: list[tuple[Int, Int, Keys | None]] = field(default_factory=list)
    parts: Parts | None = None  # Which images the samples are parts of; None where each image shows one
    share: Share | None = None  # (N,), weights of layers, as ``Composition`` has them
    paste: Paste | None = None  # Which objects of upper layers are pasted; None where layers are merged whole

    @classmethod
    def of(
        cls,
        height: npt.NDArray[np.integer],
        width: npt.NDArray[np.integer],
        objects: Objects | None = None,
        parts: Parts | None = None,
    ) -> TransformState:
        """Images as they come: (N,) heights and widths in pixels, after the EXIF orientation."""
        size = np.array((height, width), np.int64)
        low, high = np.full(size.shape, -np.inf), np.full(size.shape, np.inf)
        return cls(
            geometry=GeometryState.of(size),
            color=ColorMap(matrix=np.tile(_UNCHANGED, (len(height), 1, 1))),
            objects=ObjectState(in_source=objects, window_start=low, window_stop=high),
            fill=np.zeros(3, np.uint8),
            parts=parts,
        )

    @property
    def size(self) -> Int:
        """(2, N) int64, height and width that the images have by now, pixels."""
        return self._last.size

    @property
    def _last(self) -> GeometryState | PaddingState | WarpState:
        """The last stage of geometry so far."""
        return self.warp or self.padding or self.geometry

    def take(self, rows: Int) -> TransformState:
        """The samples at ``rows``, (M,) integers, as a separate state; see :meth:`put`."""
        return replace(
            self,
            geometry=self.geometry.take(rows),
            color=self.color.take(rows),
            objects=self.objects.take(rows),
            padding=self.padding and self.padding.take(rows),
            warp=self.warp and self.warp.take(rows),
            erased=[],
            parts=None,
        )

    def put(self, rows: Int, taken: TransformState) -> None:
        """Give the samples at ``rows`` back, after further transforms."""
        for one, other in ((self, taken), (taken, self)):
            if other.warp:
                one.warp = one.warp or WarpState.of(one.size)
            if other.padding and not one.padding:
                one.pad(other.padding.mode, 0, 0)
        if self.warp and taken.warp:
            self.warp.put(rows, taken.warp)
        if self.padding and taken.padding:
            self.padding.put(rows, taken.padding)
        self.geometry.put(rows, taken.geometry)
        self.objects.put(rows, taken.objects)
        self.color.put(rows, taken.color)
        self.fixes_size = self.fixes_size or taken.fixes_size
        if taken.fill_chosen:
            self.use_fill(taken.fill.tolist())

    def use_fill(self, color: int | Sequence[int] | None) -> None:
        """Choose the colour, RGB or one level, of all padding; None leaves it as it is."""
        if color is None:
            return
        fill = np.full(3, color, np.uint8)
        if self.fill_chosen and np.any(fill != self.fill):
            found, before = tuple(fill.tolist()), tuple(self.fill.tolist())
            raise ConfigError(
                f"fill {found} after a fill {before}", hint="Use one fill in a list of transforms."
            )
        self.fill, self.fill_chosen = fill, True

    def crop(self, origin: Int, size: Int) -> None:
        """Cut out ``size`` pixels at ``origin``, both (2, N) or (2, 1); pad what lies outside."""
        self._check_size_may_change()
        self._last.crop(origin, size)

    def pad(self, mode: str, before: Int | int, after: Int | int) -> None:
        """Add rows and columns before and after, (2, N) or (2, 1), that continue the image."""
        self._check_size_may_change()
        if self.warp is not None:
            raise ConfigError("an image is padded after a warp", hint="Move the padding before the warp.")
        if self.padding is not None:
            self.padding.refuse("another such padding")
        tile = self.geometry.size
        origin = np.zeros_like(tile) - before
        self.padding = PaddingState(mode=mode, size=tile + before + after, tile=tile, origin=origin)

    def resize(self, size: Int, interpolation: str | Enum = "bilinear", *, antialias: bool = True) -> None:
        """Resample to ``size`` pixels, (2, N) or (2, 1), reading nothing that was cut away before."""
        # The last interpolation counts, as there is one resampling. Warps antialias, or pick nearest pixels.
        self._check_size_may_change()
        chosen = Interpolation.of(interpolation)
        plain = not antialias and chosen != Interpolation.NEAREST
        self._last.resize(size, chosen.plain if plain else chosen)

    def mirror(self, where: Bool, axis: int) -> None:
        """Mirror the images at which ``where``, (N,) bool, is true; ``axis`` is 0 vertical, 1 horizontal."""
        if self.warp is not None:
            self.warp.mirror(where, axis)
            return
        self.geometry.flip[axis] ^= where
        if self.padding is not None:
            self.padding.mirror(where, axis)

    def distort(
        self,
        matrix: Float,
        *,
        perspective: bool = False,
        interpolation: str | Enum = "bilinear",
        direct: bool = False,
    ) -> None:
        """Warp: ``matrix``, (N, 3, 3), maps (x, y, 1) after this transform to (x, y, 1) before it."""
        self.warp = self.warp or WarpState.of(self.size)
        nearest = Interpolation.of(interpolation) == Interpolation.NEAREST
        self.warp.distort(matrix, perspective=perspective, nearest=nearest, direct=direct)

    def refuse_after_warp(self, transform: str, hint: str) -> None:
        """Raise ConfigError where a transform stands after a warp or padding that continues the image."""
        if self.warp is not None:
            raise ConfigError(f"{transform} stands after a warp", hint=hint)
        if self.padding is not None:
            self.padding.refuse(transform)

    def show_around_center(self, size: Int) -> None:
        """Enlarge or cut warped images around the same centre, to ``size``, (2, N)."""
        self._check_size_may_change()
        if self.warp is not None:
            self.warp.cut((self.warp.size - size) / 2, size)

    def add_steps(self, *steps: Step) -> None:
        """Append steps that exclude each other: no sample takes two. See :meth:`ColorMap.add_steps`."""
        self.color.add_steps(*steps)

    def fix_size(self, transform: str) -> None:
        """Refuse crops and resizes after this transform: its step refers to the output's size."""
        self.fixes_size = self.fixes_size or transform

    def _check_size_may_change(self) -> None:
        if name := self.fixes_size:
            raise ConfigError(
                f"a crop or resize stands after {name}, which works on images of the output's size",
                hint=f"Put {name} after all crops and resizes; flips, warps and colours may follow it.",
            )

    def merge_layers(self, transform: str, share: Share) -> None:
        """Merge layers by their shares, (N,) of 65536; ConfigError where colours have changed before."""
        if self.color.changed or self.color.steps:
            raise ConfigError(
                f"{transform} stands after a transform of colours",
                hint=f"Put {transform} before all transforms of colours.",
            )
        self.share = share

    def erase(self, origin: Int, size: Int, noise: Keys | None = None) -> None:
        """Overwrite a box at the end, ``origin`` and ``size``, (2, N), size 0 for none; ``noise`` keys it."""
        self.erased.append((origin, size, noise))

    def finished(
        self,
        size: Size,
        image_size: npt.NDArray[np.int32] | None,
        canvas_size: Size | None,
        erase_values: Sequence[Float],
    ) -> ImageParams:
        """The batch after its last transform, in the form that engines take."""
        geometry, objects, border = self.geometry, self.objects, None
        warp = None if self.warp is None or canvas_size is None else self.warp.params(canvas_size)
        if self.padding is not None:
            border, origin, extent = self.padding.border(size if warp is None else warp.canvas)
            geometry.crop(origin, extent)
        canvas = geometry.size if self.warp is None or border else self.warp.canvas
        dest_start, dest_stop = geometry.dest(canvas)
        empty = np.any(dest_stop <= dest_start, axis=0)
        if empty.any():
            geometry.blank(empty)
            if self.parts is None:  # a part that shows nothing is left out of its image
                self.color.blank(empty, self.fill)
            dest_start, dest_stop = geometry.dest(canvas)
        dest_size = dest_stop - dest_start
        start, stop = geometry.reach(dest_size)
        color, mean_matrix = self.color.parts()
        window = _rows(objects.window_start, objects.window_stop, np.float64)
        erase = tuple(
            _erase(*erased, *values) for erased, values in zip(self.erased, erase_values, strict=True)
        )
        return ImageParams(
            size=size,
            crop=_rows(start, stop - start, np.int32),
            region=_rows(geometry.content_start, geometry.content_stop, np.float64),
            dest=_rows(dest_start, dest_size, np.int32),
            flip=np.ascontiguousarray(geometry.flip[::-1].T),
            color=color,
            fill=self.fill,
            interpolation=geometry.interpolation,
            mean_matrix=mean_matrix,
            steps=tuple(self.color.steps) or None,
            warp=warp,
            border=border,
            erase=erase or None,
            image_size=image_size,
            plain=_plain(geometry.chosen),
            window=window if objects.restricted else None,
            empty=empty,
            composition=self._composition(~empty),
        )

    def _composition(self, shown: Bool) -> Composition | None:
        if (parts := self.parts) is None:
            return None
        share = np.full(len(parts), WHOLE_SHARE, np.int32) if self.share is None else self.share
        image, layer = parts.image.astype(np.int32), parts.layer.astype(np.uint8)
        return Composition(image, shown, layer, share, np.full(len(parts), -1, np.int32), paste=self.paste)


def stretched_mean(
    params: ImageParams, mean: npt.NDArray[np.float32], scale: Float, stored: npt.NDArray[Any]
) -> MeanImage:
    """A mean image, (H, W, C), in levels of the stored images, stretched over N images of sizes (N, 2)."""
    # ``scale``, (C,), has the units of the output for each level.
    size = np.array(mean.shape[:2] * 2)
    ratio = size / np.hstack((stored, stored))
    start, stop = params.crop[:, :2], params.crop[:, :2] + params.crop[:, 2:]
    start = np.floor(start * ratio[:, :2]).astype(np.int32)
    stop = np.minimum(np.ceil(stop * ratio[:, :2]), size[:2]).astype(np.int32)
    where = np.ones(len(params), np.bool_) if params.empty is None else ~params.empty
    zero = np.zeros(len(scale), np.float32)
    units = Channels(scale.astype(np.float32), zero, zero)
    return MeanImage(mean, where, np.hstack((start, stop - start)), params.region * ratio, units)


def _plain(chosen: frozenset[Interpolation]) -> Literal["bilinear", "mixed"] | None:
    """``plain`` of :class:`ImageParams`, for the interpolations that a batch may have."""
    if not chosen & {Interpolation.PLAIN_BILINEAR, Interpolation.PLAIN_BICUBIC}:
        return None
    return "bilinear" if chosen == {Interpolation.PLAIN_BILINEAR} else "mixed"


def _erase(origin: Int, size: Int, noise: Keys | None, value: Float, noisy: Float) -> Erase:
    box, mean = _rows(origin, size, np.int32), value.astype(np.float32)
    return Erase(box, mean, None if noise is None else Noise(noise, (noisy - value).astype(np.float32)))


def _rows(first: npt.NDArray[Any], second: npt.NDArray[Any], dtype: type) -> npt.NDArray[Any]:
    """Two (2, N) arrays as (N, 4)."""
    return np.ascontiguousarray(np.concatenate((first, second)).T, dtype)
