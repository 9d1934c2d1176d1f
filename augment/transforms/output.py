"""Transforms at the end of a list: Normalize, ToDtype, SubtractMean and RandomErasing."""

from __future__ import annotations

import hashlib
import io
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, get_args

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError
from stoker.types import DType

from ..state import TransformState
from .base import ATTEMPTS, SMALLEST, Float, Transform, as_tuple, first_fit, random_keys


@dataclass(frozen=True)
class Form:
    """Element type and units of the output, as a map of the stored levels, such as RGB in 0..255."""

    dtype: DType  # Element type
    scale: Float  # (C,) float64, factor of each channel
    shift: Float  # (C,) float64, what is added to each channel afterwards
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
    def matrix(self) -> Float:
        """(3, 4), the affine map of RGB; of grey, which engines execute as three equal channels, too."""
        return np.column_stack((np.eye(3) * self.scale, np.broadcast_to(self.shift, 3)))

    def to_levels(self, values: Float) -> Float:
        """Levels of ``values``, a number for each channel in the units of this form."""
        return (values - self.shift) / self.scale

    def from_levels(self, levels: Float) -> Float:
        """The inverse of :meth:`to_levels`."""
        return self.scale * levels + self.shift

    def per_channel(self, name: str, values: Sequence[float]) -> Float:
        """The argument ``name`` as (C,) numbers; ConfigError unless it is one number, or one per channel."""
        channels = len(self.scale)
        if len(values) != channels and len(set(values)) > 1:
            noun = "channel" if channels == 1 else "channels"
            raise ConfigError(
                f"{name} has {len(values)} numbers, and the images have {channels} {noun}: {tuple(values)!r}",
                hint="Give a number for each channel, or one for all, such as 0.5.",
            )
        return np.array(values if len(values) == channels else [values[0]] * channels, np.float64)


@dataclass(frozen=True)
class Normalize(Transform):
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

    late: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.set_numbers("mean", "finite numbers, one a channel, or one for all", times=3)
        self.set_numbers("std", "finite numbers other than zero, one a channel, or one for all", all, times=3)

    def convert(self, form: Form) -> Form:
        if form.is_whole:
            form = ToDtype("float32").convert(form)
        mean = form.per_channel("Normalize: mean", as_tuple(self.mean, 3))
        std = form.per_channel("Normalize: std", as_tuple(self.std, 3))
        white = form.from_levels(np.full(len(mean), float(form.white)))
        if form.white > 1 and np.allclose(white, 1) and np.max(self.mean) > 1:
            raise ConfigError(
                f"Normalize: mean must be in units of pixels in 0..1, found {self.mean!r}",
                hint="Divide mean and std by 255, or put ToDtype('float32', scale=False) before Normalize.",
            )
        return replace(form, scale=form.scale / std, shift=(form.shift - mean) / std)


@dataclass(frozen=True)
class ToDtype(Transform):
    """Convert to another element type.

    Args:
        dtype: uint8, float16, bfloat16 or float32; a name, or the dtype of NumPy or a framework. uint16 is
            for images that are stored with 16 bits.
        scale: Whether a conversion from uint8 to a float maps 0..255 to 0..1, and from uint16 0..65535. True
            by default, unlike in torchvision.
    """

    dtype: Any = "float32"
    scale: bool = True

    late: ClassVar[bool] = True

    def __post_init__(self) -> None:
        value = self.dtype
        named = getattr(value, "name", None) or getattr(value, "__name__", None) or value
        name = str(named).removeprefix("torch.")
        self.check("dtype", name in get_args(DType), f"one of {', '.join(get_args(DType))}")
        self.set("dtype", name)
        self.check_flag("scale")

    def convert(self, form: Form) -> Form:
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


_LUMA = np.array([0.299, 0.587, 0.114])
"""Weights of red, green and blue in grey (ITU-R BT.601), as for ``color="gray"``."""


@dataclass(frozen=True)
class SubtractMean(Transform):
    """Subtract a mean image, which goes through the same crops, resizes and flips as the image.

    ``stoker info DATASET --mean-image mean.npy`` writes one. It is stretched over the whole stored image.
    Where their sizes are equal and a crop does not resize, each pixel loses the mean of its location, as in
    Caffe (``src/caffe/data_transformer.cpp``). Padding stays as it is.

    Args:
        path: A ``.npy`` file of floats or integers, (H, W, C), or (H, W) for one channel, in levels of the
            stored images: 0..255, or 0..65535 of 16 bits. Grey images take the grey of an RGB mean.
        digest: BLAKE2b of the file, 16 bytes in hexadecimal, which recipes and states hold. By default it is
            computed from the file.

    The output is float32, in 0..1 less the mean, or in levels after ``ToDtype("float32", scale=False)``. A
    Normalize on either side divides image and mean alike. Warps, ElasticTransform, RandomErasing and padding
    that continues the image cannot stand in the same list.
    """

    path: str | os.PathLike[str]
    digest: str = ""
    levels: npt.NDArray[np.float32] = field(init=False, repr=False, compare=False)

    late: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.check("path", isinstance(self.path, (str, os.PathLike)), "the path of a .npy file")
        self.set("path", os.fspath(self.path))
        try:
            data = Path(self.path).read_bytes()
        except OSError as error:
            raise ConfigError(
                f"SubtractMean: the mean image cannot be read: {error.strerror or error}",
                path=self.path,
                hint="stoker info DATASET --mean-image mean.npy writes one.",
            ) from error
        digest = hashlib.blake2b(data, digest_size=16).hexdigest()
        if self.digest not in ("", digest):
            raise ConfigError(
                f"SubtractMean: the digest of the mean image is {digest}, and {self.digest!r} was asked for",
                path=self.path,
                hint="Take the file that the recipe was made with, or leave digest out.",
            )
        self.set("digest", digest)
        self.set("levels", _image(data, self.path))

    def to_dict(self) -> dict[str, Any]:
        return {"name": type(self).__name__, "path": self.path, "digest": self.digest}

    def identity(self) -> dict[str, Any]:
        return {"name": type(self).__name__, "digest": self.digest}

    def convert(self, form: Form) -> Form:
        if form.mean is not None:
            raise ConfigError("SubtractMean stands in the list twice", hint="Leave one of them out.")
        if form.is_whole:
            form = ToDtype("float32").convert(form)
        mean, channels = self.levels, len(form.scale)
        if channels == 1 and mean.shape[2] == 3:
            mean = (mean @ _LUMA)[:, :, None].astype(np.float32)
        if mean.shape[2] != channels:
            raise ConfigError(
                f"SubtractMean: the mean image has {mean.shape[2]} channels, and the images have {channels}",
                path=self.path,
                hint="Make it from the same dataset, in the same color.",
            )
        return replace(form, mean=np.ascontiguousarray(mean))


def _image(data: bytes, path: str | os.PathLike[str]) -> npt.NDArray[np.float32]:
    """The mean image of a file, (H, W, C); ConfigError where it holds none."""
    try:
        array = np.load(io.BytesIO(data), allow_pickle=False)
        levels = np.asarray(array, np.float32)
    except (ValueError, TypeError, EOFError, OSError) as error:
        raise ConfigError(
            f"SubtractMean: the file is not an array of NumPy: {error}",
            path=path,
            hint="stoker info DATASET --mean-image mean.npy writes one.",
        ) from error
    if levels.size <= 4 and levels.ndim == 1:
        raise ConfigError(
            f"SubtractMean: the file holds {levels.size} numbers, and no image",
            path=path,
            hint="Subtract a mean of each channel with Normalize(mean=..., std=...).",
        )
    if levels.ndim not in (2, 3) or not levels.size or not np.isfinite(levels).all():
        raise ConfigError(
            f"SubtractMean: the mean image must be finite numbers, (H, W, C) or (H, W), found an array "
            f"{levels.shape} of {array.dtype}",
            path=path,
            hint="Caffe's are (C, H, W), in blue, green and red: save mean[::-1].transpose(1, 2, 0).",
        )
    return levels[:, :, None] if levels.ndim == 2 else levels


@dataclass(frozen=True)
class RandomErasing(Transform):
    """Overwrite a box of random area and aspect ratio (Zhong et al., 2017), with probability ``p``.

    Only Normalize, ToDtype and RandomErasing may follow.

    Args:
        p: Probability.
        scale: Range of the box's area as a share of the image's, drawn uniformly.
        ratio: Range of its aspect ratio, height over width, drawn uniformly in the logarithm.
        value: One number, or one for each channel, in the units of the pixels where the transform stands:
            0..255, or 0..1 after ToDtype, or normalised after Normalize. Or "random": normal noise of mean 0
            and standard deviation 1 in these units, for each pixel and channel.

    The distribution is torchvision's: of ten sizes the first one that is smaller than the image in both
    directions gets a uniform location; if none is, nothing is erased.
    """

    p: float = 0.5
    scale: Sequence[float] = (0.02, 0.33)
    ratio: Sequence[float] = (0.3, 3.3)
    value: float | Sequence[float] | str = 0.0

    draws: ClassVar[int] = 2 * ATTEMPTS + 4
    late: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.check_probability()
        self.set_range("scale", 0, 1, "a pair of numbers, 0 <= low <= high <= 1")
        self.set_range("ratio", SMALLEST, math.inf, "a pair of finite numbers, 0 < low <= high")
        if not (isinstance(self.value, str) and self.value == "random"):
            self.set_numbers("value", 'a finite number or one for each channel, or "random"', times=3)

    def params(self, state: TransformState, u: Float) -> None:
        # The logarithm of width over height is as uniform as that of height over width.
        ratio = (1 / self.ratio[1], 1 / self.ratio[0])
        size, fits = first_fit(state.size, (0, state.size - 1), self.scale, ratio, u[:, 3:-1])
        size *= fits & (u[:, 0] < self.p)
        keys = random_keys(u[:, -1]) if self.value == "random" else None
        state.erase((u[:, 1:3].T * (state.size - size + 1)).astype(np.int64), size, keys)

    def values(self, form: Form) -> Float:
        """The value of boxes in images of ``form``, and the value plus one standard deviation, (2, C)."""
        if isinstance(self.value, str):
            return np.array([np.zeros(len(form.scale)), np.ones(len(form.scale))])
        return np.tile(form.per_channel("RandomErasing: value", as_tuple(self.value, 3)), (2, 1))


OutputTransform = Normalize | ToDtype | SubtractMean
"""The transforms that change the form of the output, in the same way for all samples."""
