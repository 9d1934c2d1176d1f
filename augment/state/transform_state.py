"""State of a batch between two transforms, without pixels.

Geometry is kept as rectangles of the source, so that any sequence of crops, resizes and flips ends in one
resampling; colour is kept as one affine map where it can be. Geometry has three stages: rectangles along the
axes, then padding that continues the image, then warps. A crop, resize or flip acts on the last stage so far.

Arrays over axes have shape (2, N): the vertical axis first, then the horizontal one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError
from stoker.types import Size

from ..geometry.boxes import Objects
from ..geometry.interpolation import Interpolation
from ..params.composition import WHOLE, Parts, Paste
from ..params.optional_params import Border
from ..steps import Step
from .color_map import ColorMap
from .geometry_state import GeometryState
from .object_state import ObjectState
from .padding_state import PaddingState
from .warp_state import WarpState

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]


@dataclass(kw_only=True)
class TransformState:
    """N images in the middle of their transforms.

    Transforms compose what they decide onto it by its methods, and by those of ``color``.
    """

    geometry: GeometryState  # Which part of the source the images show
    color: ColorMap  # What happens to their colours
    objects: ObjectState  # Where their objects lie
    # (3,) uint8, RGB of constant padding; black unless :meth:`use_fill` has chosen another colour
    fill: npt.NDArray[np.uint8]
    padding: PaddingState | None = None  # What continues the images; None before such padding
    warp: WarpState | None = None  # Geometry that is not along the axes; None before the first warp
    fill_chosen: bool = False  # Whether :meth:`use_fill` has chosen a colour
    # Name of a transform whose step depends on the size, so that no crop or resize may follow; empty for none
    fixes_size: str = ""
    # For each box that is overwritten at the end: origin and size, (2, N) int64 each, and the keys of its
    # noise, (N,) uint64, or None
    erased: list[tuple[Int, Int, Keys | None]] = field(default_factory=list)
    # Which images the samples are parts of; None where each image shows one sample
    parts: Parts | None = None
    # (N,) int32, weights of layers, as :class:`~stoker.augment.params.composition.Composition` has them
    share: npt.NDArray[np.int32] | None = None
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
        n = len(height)
        return cls(
            geometry=GeometryState.of(np.array((height, width), np.int64)),
            color=ColorMap.of(n),
            objects=ObjectState.of(objects, n),
            fill=np.zeros(3, np.uint8),
            parts=parts,
        )

    @property
    def size(self) -> Int:
        """(2, N) int64, height and width that the images have by now, pixels."""
        return (self.warp or self.padding or self.geometry).size

    def tiles(self) -> Int:
        """(N,) int64, tiles of mosaics that the samples are, as in ``Parts``."""
        return np.full(self.size.shape[1], WHOLE) if self.parts is None else self.parts.tile

    def take(self, rows: Rows) -> TransformState:
        """The samples at ``rows``, (M,) integers, as a separate state; see :meth:`put`."""
        return TransformState(
            geometry=self.geometry.take(rows),
            color=self.color.take(rows),
            objects=self.objects.take(rows),
            padding=self.padding and self.padding.take(rows),
            warp=self.warp and self.warp.take(rows),
            fill=self.fill,
            fill_chosen=self.fill_chosen,
            fixes_size=self.fixes_size,
        )

    def put(self, rows: Rows, taken: TransformState) -> None:
        """Give the samples at ``rows`` back, after further transforms."""
        self._put_warp(rows, taken)
        self._put_padding(rows, taken)
        self.geometry.put(rows, taken.geometry)
        self.objects.put(rows, taken.objects)
        self.color.put(rows, taken.color)
        self.fixes_size = self.fixes_size or taken.fixes_size
        if taken.fill_chosen:
            self.use_fill(taken.fill.tolist())

    def _put_warp(self, rows: Rows, taken: TransformState) -> None:
        for one, other in ((self, taken), (taken, self)):
            if one.warp is None and other.warp is not None:
                one.distort(np.tile(np.eye(3), (one.size.shape[1], 1, 1)))
        if self.warp is not None and taken.warp is not None:
            self.warp.put(rows, taken.warp)

    def _put_padding(self, rows: Rows, taken: TransformState) -> None:
        for one, other in ((self, taken), (taken, self)):
            if one.padding is None and other.padding is not None:
                one.pad(other.padding.mode, 0, 0)
        if self.padding is not None and taken.padding is not None:
            self.padding.put(rows, taken.padding)

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
        (self.warp or self.padding or self.geometry).crop(origin, size)

    def pad(self, mode: str, before: Int | int, after: Int | int) -> None:
        """Add rows and columns before and after, (2, N) or (2, 1), that continue the image."""
        self._check_size_may_change()
        if self.warp is not None:
            raise ConfigError("an image is padded after a warp", hint="Move the padding before the warp.")
        if self.padding is not None:
            self.padding.refuse("another such padding")
        self.padding = PaddingState.of(mode, self.geometry.size, before, after)

    def resize(self, size: Int, interpolation: str | Enum = "bilinear", *, antialias: bool = True) -> None:
        """Resample to ``size`` pixels, (2, N) or (2, 1), reading nothing that was cut away before.

        The interpolation of the last resize counts, because there is only one resampling. Warped images are
        resampled as :class:`stoker.augment.params.optional_params.Warp` says; after a warp all interpolations
        but "nearest" are bilinear and antialias. ``antialias=False`` interpolates between the nearest pixels,
        however much an image shrinks.
        """
        self._check_size_may_change()
        if self.padding is not None and self.warp is None:
            self.padding.refuse("a resize")
        chosen = Interpolation.of(interpolation)
        plain = not antialias and chosen != Interpolation.NEAREST
        (self.warp or self.geometry).resize(size, chosen.plain if plain else chosen)

    def map_to_output(self, size: Size, origin: Float, scale: Float, start: Float, stop: Float) -> None:
        """Map whole images to an output, before all other changes; see ``GeometryState.map_to_output``."""
        self.geometry.map_to_output(size, origin, scale, start, stop)

    def merge_layers(self, transform: str, share: npt.NDArray[np.int32]) -> None:
        """Merge layers by their shares, (N,) of 65536; ConfigError where colours have changed before."""
        if self.color.changed or self.color.steps:
            raise ConfigError(
                f"{transform} stands after a transform of colours",
                hint=f"Put {transform} before all transforms of colours.",
            )
        self.share = share

    def mirror(self, where: npt.NDArray[np.bool_], axis: int) -> None:
        """Mirror the images at which ``where``, (N,) bool, is true; ``axis`` is 0 vertical, 1 horizontal."""
        if self.warp is not None:
            self.warp.mirror(where, axis)
            return
        self.geometry.mirror(where, axis)
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
        if self.warp is None:
            self.warp = WarpState.of(self.size, matrix, perspective=perspective, interpolation=interpolation)
        else:
            self.warp.distort(matrix, perspective=perspective, interpolation=interpolation)
        self.warp.direct |= direct

    def show_around_center(self, size: Int) -> None:
        """Enlarge or cut warped images around the same centre, to ``size``, (2, N)."""
        self._check_size_may_change()
        if self.warp is not None:
            self.warp.show_around_center(size)

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

    def erase(self, origin: Int, size: Int, noise: Keys | None = None) -> None:
        """Overwrite a box at the very end: ``origin`` and ``size``, (2, N); size 0 for none.

        ``noise``, (N,) uint64, has the keys of the noise that the box is filled with.
        """
        self.erased.append((origin, size, noise))

    def close_padding(self, size: Size) -> Border | None:
        """Cut the geometry down to what padded images of ``size`` show of it; None without padding."""
        if self.padding is None:
            return None
        border, origin, extent = self.padding.border(size)
        self.geometry.crop(origin, extent)
        return border

    def blank(self, where: npt.NDArray[np.bool_]) -> None:
        """Fill the images at which ``where``, (N,) bool, is true with ``fill``: they show only padding."""
        self.geometry.blank(where)
        if self.parts is None:  # a part that shows nothing is left out of its image
            self.color.blank(where, self.fill)
