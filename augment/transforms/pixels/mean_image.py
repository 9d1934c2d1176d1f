"""Subtraction of a dataset's mean image, as in training of Caffe's time."""

from __future__ import annotations

import hashlib
import io
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

from .output import Form, OutputTransform, ToDtype

_LUMA = np.array([0.299, 0.587, 0.114])
"""Weights of red, green and blue in grey (ITU-R BT.601), those of ``color="gray"``."""


@dataclass(frozen=True)
class SubtractMean(OutputTransform):
    """Subtract a mean image, which goes through the same crops, resizes and flips as the image.

    ``stoker info DATASET --mean-image mean.npy`` writes one. It is stretched over the whole stored image, so
    that their sizes may differ. Where they are equal and a crop does not resize, each pixel loses the mean
    of its location, as in Caffe: ``DataTransformer::Transform`` in ``src/caffe/data_transformer.cpp`` crops
    and mirrors the mean with the image. Padding stays as it is.

    Args:
        path: A ``.npy`` file of floats or integers, (H, W, C), or (H, W) for one channel, in levels of the
            stored images: 0..255, or 0..65535 of 16 bits. Grey images take the grey of an RGB mean.
        digest: BLAKE2b of the file, 16 bytes in hexadecimal, which recipes and states hold. By default it is
            computed from the file.

    The output is float32, in 0..1 less the mean, or in levels after ``ToDtype("float32", scale=False)``. A
    Normalize beside it, on either side, divides image and mean alike. Colours are changed before it. Warps,
    ElasticTransform, RandomErasing and padding that continues the image cannot stand in the same list.

    Raises:
        ConfigError: The file cannot be read, holds no image, or is not the one of the digest.
    """

    path: str | os.PathLike[str]
    digest: str = ""
    levels: npt.NDArray[np.float32] = field(init=False, repr=False, compare=False)

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
        """See :meth:`Description.to_dict`."""
        return {"name": type(self).__name__, "path": self.path, "digest": self.digest}

    def identity(self) -> dict[str, Any]:
        """See :class:`Transform`: the file may move."""
        return {"name": type(self).__name__, "digest": self.digest}

    def convert(self, form: Form) -> Form:
        """See :class:`OutputTransform`; ConfigError where the mean has other channels than the images."""
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
            f"SubtractMean: the mean image must be finite numbers, (H, W, C) or (H, W); found an array "
            f"{levels.shape} of {array.dtype}",
            path=path,
            hint="Caffe's are (C, H, W), in blue, green and red: save mean[::-1].transpose(1, 2, 0).",
        )
    return levels[:, :, None] if levels.ndim == 2 else levels
