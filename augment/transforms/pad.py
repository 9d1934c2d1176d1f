"""Padding: torchvision.transforms.v2.Pad and RandomCrop with its padding, of constant colour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from stoker.augment.transforms.base import Size, Transform, as_tuple, is_finite, is_whole
from stoker.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from stoker.augment.frame import Frame

    Int = npt.NDArray[np.int64]

__all__ = ["Pad", "RandomCrop", "set_fill"]


@dataclass(frozen=True)
class Pad(Transform):
    """Add a border.

    Args:
        padding: Width of the border in pixels: one number, or two (left and right, top and bottom),
            or four (left, top, right, bottom).
        fill: Level 0..255 or three of them (RGB). One list of transforms has one fill, that of
            CenterCrop and the warps in it too.
    """

    padding: int | Sequence[int]
    fill: int | Sequence[int] = 0

    def __post_init__(self) -> None:
        _set_padding(self)
        set_fill(self)

    def params(self, frame: Frame, u: npt.NDArray[np.float64]) -> None:
        """See :class:`Transform`."""
        _pad(frame, self.padding, self.fill)

    def output_size(self, size: Size | None) -> Size | None:
        """See :class:`Transform`."""
        if size is None:
            return None
        left, top, right, bottom = self.padding  # type: ignore[misc]  # four since __post_init__
        return size[0] + top + bottom, size[1] + left + right


@dataclass(frozen=True)
class RandomCrop(Transform):
    """Cut out a part of fixed size at a uniform position.

    Args:
        size: (height, width) in pixels, or one number for a square.
        padding: Border to add before, as for :class:`Pad`, or None.
        pad_if_needed: Whether an image that is still smaller is padded, on both sides by all that is
            missing, as torchvision does. Otherwise it is a ConfigError when it is met.
        fill: As for :class:`Pad`.
    """

    size: int | Sequence[int]
    padding: int | Sequence[int] | None = None
    pad_if_needed: bool = False
    fill: int | Sequence[int] = 0

    draws: ClassVar[int] = 2

    def __post_init__(self) -> None:
        self.set_size()
        if self.padding is not None:
            _set_padding(self)
        self.check("pad_if_needed", isinstance(self.pad_if_needed, bool), "True or False")
        set_fill(self)

    def params(self, frame: Frame, u: npt.NDArray[np.float64]) -> None:
        """See :class:`Transform`."""
        size = np.array(self.size)[:, None]
        if self.padding is not None:
            _pad(frame, self.padding, self.fill)
        missing = np.maximum(size - frame.size, 0)
        if missing.any():
            self._check_missing(frame.size, missing)
            frame.use_fill(self.fill)
            frame.crop(-missing, frame.size + 2 * missing)
        frame.crop((u.T * (frame.size - size + 1)).astype(np.int64), size)

    def output_size(self, size: Size | None) -> Size | None:
        """See :class:`Transform`."""
        return self.size  # type: ignore[return-value]  # a pair since __post_init__

    def _check_missing(self, size: Int, missing: Int) -> None:
        if not self.pad_if_needed:
            height, width = size[:, missing.any(axis=0).argmax()]
            raise ConfigError(
                f"RandomCrop: size {self.size} is larger than an image of {height} x {width}",
                hint="Resize before it, or set pad_if_needed=True.",
            )


def _pad(frame: Frame, padding: Any, fill: Any) -> None:
    left, top, right, bottom = padding
    frame.use_fill(fill)
    frame.crop(np.array([[-top], [-left]]), frame.size + np.array([[top + bottom], [left + right]]))


def _set_padding(transform: Transform) -> None:
    sides = as_tuple(transform.padding, 4)  # type: ignore[attr-defined]  # both classes here have it
    good = len(sides) in (2, 4) and all(map(is_whole, sides))
    transform.check("padding", good, "one, two or four integers from 0, pixels")
    transform.set("padding", tuple(int(sides[i % len(sides)]) for i in range(4)))


def set_fill(transform: Transform) -> None:
    """Normalise the argument ``fill``, a level or three of them, to three."""
    levels = as_tuple(transform.fill, 3)  # type: ignore[attr-defined]  # its classes have it
    good = len(levels) == 3 and all(map(is_finite, levels))
    good = good and all(0 <= level <= 255 and level == int(level) for level in levels)
    transform.check("fill", good, "a level 0..255, a whole number, or three of them (RGB)")
    transform.set("fill", tuple(map(int, levels)))
