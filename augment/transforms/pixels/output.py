"""Transforms of the output's element type and units: torchvision.transforms.v2.Normalize and ToDtype."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, get_args

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError
from stoker.types import DType

from ...description import as_tuple, is_finite
from ..base import Transform


@dataclass(frozen=True)
class Form:
    """Element type and units of the output, as a map of the stored levels, such as RGB in 0..255."""

    dtype: DType  # Element type
    scale: npt.NDArray[np.float64]  # (C,) float64, factor of each channel
    shift: npt.NDArray[np.float64]  # (C,) float64, what is added to each channel afterwards
    white: int = 255  # The highest level of the stored images, 255 or 65535; 1 for floats, which have none
    # (H, W, C) float32, a mean image in stored levels, which is subtracted from them; or None
    mean: npt.NDArray[np.float32] | None = None

    @classmethod
    def of_levels(cls, channels: int = 3, bits: int = 8) -> Form:
        """Images of so many channels, of 8, 16 or 32 bits, as they are decoded: uint8, uint16 or float32."""
        if bits == 32:
            return cls("float32", np.ones(channels), np.zeros(channels), 1)
        dtype: DType = "uint8" if bits == 8 else "uint16"
        return cls(dtype, np.ones(channels), np.zeros(channels), (1 << bits) - 1)

    @property
    def is_whole(self) -> bool:
        """Whether the elements are integers."""
        return self.dtype in ("uint8", "uint16")

    @property
    def matrix(self) -> npt.NDArray[np.float64]:
        """(3, 4), the affine map of RGB; of grey, which engines execute as three equal channels, too."""
        return np.column_stack((np.eye(3) * self.scale, np.broadcast_to(self.shift, 3)))

    def to_levels(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Levels of ``values``, a number for each channel in the units of this form."""
        return (values - self.shift) / self.scale

    def from_levels(self, levels: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The inverse of :meth:`to_levels`."""
        return self.scale * levels + self.shift

    def per_channel(self, name: str, values: Sequence[float]) -> npt.NDArray[np.float64]:
        """The argument ``name`` as (C,) numbers; ConfigError unless it is one number, or one per channel."""
        channels = len(self.scale)
        if len(values) != channels and len(set(values)) > 1:
            noun = "channel" if channels == 1 else "channels"
            raise ConfigError(
                f"{name} has {len(values)} numbers, and the images have {channels} {noun}: {tuple(values)!r}",
                hint="Give a number for each channel, or one for all, such as 0.5.",
            )
        return np.array(values if len(values) == channels else [values[0]] * channels, np.float64)


class OutputTransform(Transform):
    """Base of the transforms that change the form of the output, in the same way for all samples."""

    late: ClassVar[bool] = True

    def convert(self, form: Form) -> Form:
        """The form of the output after this transform."""
        raise NotImplementedError


@dataclass(frozen=True)
class Normalize(OutputTransform):
    """Subtract ``mean`` and divide by ``std``, channel by channel.

    Args:
        mean: A number for each channel, or one for all, in torchvision's units: of pixels in 0..1, or in
            0..255 after ``ToDtype(..., scale=False)``. By default ImageNet's, which are three, RGB.
        std: Numbers other than zero, likewise.

    Unlike in torchvision, no ToDtype is needed before it: pixels that are still uint8 become float32 in
    0..1 first.
    """

    mean: float | Sequence[float] = (0.485, 0.456, 0.406)
    std: float | Sequence[float] = (0.229, 0.224, 0.225)

    def __post_init__(self) -> None:
        for name in ("mean", "std"):
            value = as_tuple(getattr(self, name), 3)
            good = len(value) > 0 and all(map(is_finite, value))
            self.check(name, good, "finite numbers, one a channel, or one for all")
            self.check(name, name == "mean" or all(value), "numbers other than zero")
            self.set(name, tuple(map(float, value)))

    def convert(self, form: Form) -> Form:
        """See :class:`OutputTransform`; ConfigError for a mean in 0..255 where pixels are in 0..1."""
        if form.is_whole:
            form = ToDtype("float32").convert(form)
        mean = form.per_channel("Normalize: mean", as_tuple(self.mean, 3))
        std = form.per_channel("Normalize: std", as_tuple(self.std, 3))
        white = form.from_levels(np.full(len(mean), float(form.white)))
        if form.white > 1 and np.allclose(white, 1) and np.max(self.mean) > 1:
            raise ConfigError(
                f"Normalize: mean must be in units of pixels in 0..1; found {self.mean!r}",
                hint="Divide mean and std by 255, or put ToDtype('float32', scale=False) before Normalize.",
            )
        return replace(form, scale=form.scale / std, shift=(form.shift - mean) / std)


@dataclass(frozen=True)
class ToDtype(OutputTransform):
    """Convert to another element type.

    Args:
        dtype: uint8, float16, bfloat16 or float32; a name, or the dtype of NumPy or a framework. uint16 is
            for images that are stored with 16 bits.
        scale: Whether a conversion from uint8 to a float maps 0..255 to 0..1, and from uint16 0..65535. True
            by default, unlike in torchvision.
    """

    dtype: Any = "float32"
    scale: bool = True

    def __post_init__(self) -> None:
        value = self.dtype
        named = getattr(value, "name", None) or getattr(value, "__name__", None) or value
        name = str(named).removeprefix("torch.")
        self.check("dtype", name in get_args(DType), f"one of {', '.join(get_args(DType))}")
        self.set("dtype", name)
        self.check("scale", isinstance(self.scale, bool), "True or False")

    def convert(self, form: Form) -> Form:
        """See :class:`OutputTransform`; ConfigError on the way back from a float to uint8."""
        whole = self.dtype in ("uint8", "uint16")
        if whole and form.is_whole and self.dtype != form.dtype:
            bits = 8 if form.dtype == "uint8" else 16
            raise ConfigError(
                f"{self.dtype} output of images with {bits} bits a level",
                hint=f"Ask for {form.dtype}, or for a float dtype.",
            )
        if whole and not form.is_whole:
            before = "of images that are stored as" if form.white == 1 else "after a conversion to"
            raise ConfigError(
                f"{self.dtype} output {before} {form.dtype}",
                hint="Leave out Normalize and ToDtype for whole levels, or ask for a float dtype.",
            )
        form, old = replace(form, dtype=self.dtype), form
        if not self.scale or not old.is_whole or whole:
            return form
        return replace(form, scale=form.scale / form.white, shift=form.shift / form.white)
