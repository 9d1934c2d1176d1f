"""Statistics of pixels: mean and standard deviation for Normalize, and the mean image of DIGITS."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from stoker import _native
from stoker.errors import ConfigError, DatasetError, DecodeError

from .codecs.codec import MAX_PIXELS, Codec
from .codecs.decode import decode_rgb
from .codecs.npy import decode_npy
from .dataset.dataset import Dataset
from .threads import check_threads, thread_map

_CHUNK = 16
# Sums of squares of bytes are exact in float64 up to 2^53 / 255^2 pixels; this many fit in a cache.
_BLOCK = 1 << 16
_RGB = (3, "uint8")
_BILINEAR = 1  # the number of stoker.augment's Interpolation


@dataclass(frozen=True)
class PixelStatistics:
    """Statistics of all pixels of a dataset; every pixel has the same weight."""

    images: int  # Number of images
    pixels: int  # Number of pixels
    mean: tuple[float, ...]  # Mean of each channel: of red, green and blue, or of the channels of arrays
    std: tuple[float, ...]  # Standard deviations of the population, in the same units
    # (H, W, C) float32 in stored levels, such as 0 to 255: the mean of all images, each resized to H x W
    # whatever its aspect ratio
    mean_image: npt.NDArray[np.float32]


@dataclass(frozen=True)
class _Sums:
    """Sums over pixels, by channel, and over images, by pixel; integers for bytes."""

    pixels: int
    values: list[Any]
    squares: list[Any]
    image: npt.NDArray[Any]

    def __add__(self, other: _Sums) -> _Sums:
        return _Sums(
            self.pixels + other.pixels,
            [a + b for a, b in zip(self.values, other.values, strict=True)],
            [a + b for a, b in zip(self.squares, other.squares, strict=True)],
            self.image + other.image,
        )


def pixel_statistics(
    dataset: Dataset,
    *,
    mean_image_size: tuple[int, int] | None = None,
    num_threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> PixelStatistics:
    """Decode every image of a dataset and return statistics of the pixels.

    The mean image has the size of the images if all have one, else 256 x 256, unless a size is given.
    """
    # Sums of integers are exact; sums of floats are not.
    images = len(dataset)
    if dataset.manifest.sample_type != "image" or not images:
        raise DatasetError("the dataset holds no images", path=dataset.path)
    threads = check_threads(num_threads)
    if mean_image_size is None:
        height, width = dataset.column("height"), dataset.column("width")
        is_common = np.all(height == height[0]) and np.all(width == width[0])
        mean_image_size = (int(height[0]), int(width[0])) if is_common else (256, 256)
    if min(mean_image_size) < 1:
        raise ConfigError("both sides of mean_image_size must be at least 1")
    form = _form(_pixels(dataset, 0))
    chunks = (range(start, min(start + _CHUNK, images)) for start in range(0, images, _CHUNK))
    sum_images = partial(_sum_images, dataset, size=mean_image_size, form=form)
    total: _Sums | None = None
    for chunk, sums in thread_map(sum_images, chunks, "pixels", threads, 2 * threads):
        total = total + sums if total else sums
        if progress is not None:
            progress(chunk.stop, images)
    assert total is not None, "there is at least one image"
    n, white = total.pixels, {"uint8": 255, "uint16": 65535}.get(form[1], 1)
    # From a variance in integers, because a difference of large floats would be inexact.
    variances = (
        max(n * square - value**2, 0) / n**2
        for value, square in zip(total.values, total.squares, strict=True)
    )
    return PixelStatistics(
        images=images,
        pixels=n,
        mean=tuple(value / (white * n) for value in total.values),
        std=tuple(math.sqrt(variance) / white for variance in variances),
        mean_image=(total.image / images).astype(np.float32),
    )


def check_mean_image(path: str | os.PathLike[str]) -> None:
    """Check that :func:`save_mean_image` can write to a path, before the images are decoded."""
    file = Path(path)
    if file.suffix.lower() not in (".png", ".npy"):
        raise ConfigError(f"a mean image must be written as .png or .npy, found {file.suffix!r}", path=path)
    if not file.parent.is_dir():
        raise ConfigError("the folder of the mean image does not exist", path=file.parent)


def save_mean_image(path: str | os.PathLike[str], mean_image: npt.NDArray[np.float32]) -> None:
    """Write a mean image, (H, W, C): as it is to ``.npy``, or rounded to bytes to ``.png``."""
    check_mean_image(path)
    if Path(path).suffix.lower() == ".npy":
        with Path(path).open("wb") as file:  # given only a path, NumPy adds a suffix to .NPY
            np.save(file, mean_image)
    elif mean_image.shape[2] != 3 or mean_image.max() > 255:
        raise ConfigError("the mean of these arrays is not an image", path=path, hint="Write it as .npy.")
    else:
        Image.fromarray(np.rint(mean_image).astype(np.uint8)).save(path)


def _pixels(dataset: Dataset, position: int) -> npt.NDArray[Any]:
    """Return the pixels of an image: RGB, or an array as it is stored; DecodeError names the image."""
    samples, data = dataset.samples(range(position, position + 1)), dataset.read(position)
    try:
        if samples.codec[0] == Codec.NPY:
            return np.ascontiguousarray(decode_npy(data, MAX_PIXELS))
        return decode_rgb(data, samples.codec[0], int(samples.height[0]), int(samples.width[0]))
    except MemoryError:
        raise
    # Pillow's decoders raise nearly anything on a damaged image.
    except Exception as error:
        raise dataset.error(position, f"the image cannot be decoded: {error}", DecodeError) from error


def _form(pixels: npt.NDArray[Any]) -> tuple[int, str]:
    """Return the channels and the dtype of an image."""
    return pixels.shape[2], pixels.dtype.name


def _sum_images(dataset: Dataset, positions: range, size: tuple[int, int], form: tuple[int, str]) -> _Sums:
    channels, dtype = form
    image: npt.NDArray[Any] = np.zeros((*size, channels), np.int64 if form == _RGB else np.float64)
    pixels, values, squares = 0, [0] * channels, [0] * channels
    for position in positions:
        array = _pixels(dataset, position)
        if _form(array) != form:
            described = "{} channels of {}".format(*_form(array))
            message = f"the array has {described}, and the first image {channels} of {dtype}"
            raise dataset.error(position, message, DecodeError)
        pixels += array.shape[0] * array.shape[1]
        image += _native.resize(array, size) if form == _RGB else _resized(array, size)
        for channel, (value, square) in enumerate(_channel_sums(array)):
            values[channel] += value
            squares[channel] += square
    return _Sums(pixels, values, squares, image)


def _resized(pixels: npt.NDArray[Any], size: tuple[int, int]) -> npt.NDArray[np.float32]:
    """Return an array of any channels, (H, W, C), resized and as floats."""
    height, width, channels = pixels.shape
    resized = np.empty((*size, channels), np.float32)
    whole, zero = np.array((0, 0, height, width), np.int32), np.zeros(channels, np.float32)
    _native.resample_channels(
        pixels,
        resized,
        dtype="float32",
        planar=False,
        crop=whole,
        region=whole.astype(np.float64),
        dest=np.array((0, 0, *size), np.int32),
        flip=np.zeros(2, np.bool_),
        interpolation=_BILINEAR,
        scale=np.ones(channels, np.float32),
        shift=zero,
        fill=zero,
    )
    return resized


def _channel_sums(pixels: npt.NDArray[Any]) -> list[tuple[Any, Any]]:
    flat = pixels.reshape(-1, pixels.shape[2])
    sums = np.zeros((2, flat.shape[1]))
    for start in range(0, len(flat), _BLOCK):
        block = flat[start : start + _BLOCK].T.astype(np.float64, order="C")
        sums[0] += block.sum(axis=1)
        # No product of matrices: BLAS would start more threads in each of these threads.
        sums[1] += np.einsum("ij,ij->i", block, block)
    as_number = float if pixels.dtype.kind == "f" else int
    return [(as_number(value), as_number(square)) for value, square in sums.T]
