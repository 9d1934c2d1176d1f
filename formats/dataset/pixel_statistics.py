"""Statistics of pixels: the means and deviations that Normalize needs, and the mean image of DIGITS."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from stoker import _native
from stoker.errors import ConfigError, DatasetError, DecodeError

from ..codecs.decode import decode_rgb
from ..concurrency.bounded_map import bounded_map
from ..concurrency.cores import check_threads

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from .dataset import Dataset

__all__ = ["PixelStatistics", "check_mean_image", "pixel_statistics", "save_mean_image"]

_CHUNK = 16
# Sums of squares of bytes are exact in float64 up to 2^53 / 255^2 pixels; this many fit in a cache.
_BLOCK = 1 << 16


@dataclass(frozen=True)
class PixelStatistics:
    """Statistics of all pixels of a dataset; every pixel has the same weight.

    Attributes:
        images: Number of images.
        pixels: Number of pixels.
        mean: Means of red, green and blue, in torchvision's units: black is 0 and 255 is 1.
        std: Standard deviations of the population, in the same units.
        mean_image: (H, W, 3) float32 RGB from 0 to 255, the mean of all images, each resized to H x W without
            regard to its aspect ratio.
    """

    images: int
    pixels: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    mean_image: npt.NDArray[np.float32]


def pixel_statistics(
    dataset: Dataset,
    *,
    mean_image_size: tuple[int, int] = (256, 256),
    num_threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> PixelStatistics:
    """Decode every image of a dataset and return statistics of the pixels; sums are exact, in integers.

    Args:
        dataset: Images; their checksums are verified.
        mean_image_size: Height and width of the mean image, pixels.
        num_threads: Number of threads; by default the cores that this process may use.
        progress: Called with images done and images in all, from the calling thread.

    Raises:
        CorruptRecordError: A checksum does not match; names shard, record and key.
        DecodeError: An image cannot be decoded; likewise.
        DatasetError: The dataset holds no images.
        ConfigError: ``num_threads`` is no number of threads, or a side of the mean image is less than 1.
    """
    if dataset.manifest.sample_type != "image" or not len(dataset):
        raise DatasetError("the dataset holds no images", path=dataset.path)
    threads = check_threads(num_threads)
    if min(mean_image_size) < 1:
        raise ConfigError("both sides of mean_image_size must be at least 1")
    total = _Sums(0, [0] * 3, [0] * 3, np.zeros((*mean_image_size, 3), np.int64))
    for done, part in _sums(dataset, mean_image_size, threads):
        total = total.plus(part)
        if progress is not None:
            progress(done, len(dataset))
    mean, std = total.moments()
    return PixelStatistics(
        images=len(dataset),
        pixels=total.pixels,
        mean=mean,
        std=std,
        mean_image=(total.image / len(dataset)).astype(np.float32),
    )


def check_mean_image(path: str | os.PathLike[str]) -> None:
    """Check that :func:`save_mean_image` can write to a path, before all images are decoded for it.

    Raises:
        ConfigError: The suffix is neither ``.png`` nor ``.npy``, or the folder does not exist.
    """
    file = Path(path)
    if file.suffix.lower() not in (".png", ".npy"):
        raise ConfigError(f"a mean image is written as .png or .npy, not {file.suffix!r}", path=path)
    if not file.parent.is_dir():
        raise ConfigError("the folder of the mean image does not exist", path=file.parent)


def save_mean_image(path: str | os.PathLike[str], mean_image: npt.NDArray[np.float32]) -> None:
    """Write a mean image: as it is to ``.npy``, or rounded to bytes to ``.png``.

    Args:
        path: Path of the file, with one of these suffixes.
        mean_image: (H, W, 3) float32 RGB from 0 to 255.

    Raises:
        ConfigError: As :func:`check_mean_image`.
    """
    check_mean_image(path)
    if Path(path).suffix.lower() == ".npy":
        with Path(path).open("wb") as file:  # given only a path, NumPy adds a suffix to .NPY
            np.save(file, mean_image)
    else:
        Image.fromarray(np.rint(mean_image).astype(np.uint8)).save(path)


@dataclass(frozen=True)
class _Sums:
    """Sums over pixels, by channel, and over images, by pixel."""

    pixels: int
    values: list[int]
    squares: list[int]
    image: npt.NDArray[np.int64]

    def plus(self, other: _Sums) -> _Sums:
        return _Sums(
            self.pixels + other.pixels,
            [a + b for a, b in zip(self.values, other.values, strict=True)],
            [a + b for a, b in zip(self.squares, other.squares, strict=True)],
            self.image + other.image,
        )

    def moments(self) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
        """Return the mean and the standard deviation of each channel, from a variance in integers."""
        n = self.pixels
        means = [value / (255 * n) for value in self.values]
        deviations = [
            math.sqrt((n * square - value**2) / n**2) / 255
            for value, square in zip(self.values, self.squares, strict=True)
        ]
        return (means[0], means[1], means[2]), (deviations[0], deviations[1], deviations[2])


def _sums(dataset: Dataset, size: tuple[int, int], threads: int) -> Iterator[tuple[int, _Sums]]:
    """Yield the sums of each chunk of images, with the number of images up to its end."""
    starts = range(0, len(dataset), _CHUNK)
    chunks = (range(start, min(start + _CHUNK, len(dataset))) for start in starts)
    tasks = ((chunk.stop, partial(_sum_images, dataset, chunk, size)) for chunk in chunks)
    with ThreadPoolExecutor(threads, thread_name_prefix="stoker-pixels") as pool:
        yield from bounded_map(pool, tasks, 2 * threads)


def _sum_images(dataset: Dataset, positions: range, size: tuple[int, int]) -> _Sums:
    samples = dataset.samples(positions)
    image = np.zeros((*size, 3), np.int64)
    pixels, values, squares = 0, [0] * 3, [0] * 3
    for i, position in enumerate(positions):
        data = dataset.read(position)
        try:
            rgb = decode_rgb(data, samples.codec[i], int(samples.height[i]), int(samples.width[i]))
        # Pillow's decoders raise nearly anything on a damaged image.
        except Exception as error:
            raise dataset.error(position, f"the image cannot be decoded: {error}", DecodeError) from error
        pixels += rgb.shape[0] * rgb.shape[1]
        image += _native.resize(rgb, size)
        for channel, (value, square) in enumerate(_channel_sums(rgb)):
            values[channel] += value
            squares[channel] += square
    return _Sums(pixels, values, squares, image)


def _channel_sums(rgb: npt.NDArray[np.uint8]) -> list[tuple[int, int]]:
    flat = rgb.reshape(-1, 3)
    sums = np.zeros((2, 3))
    for start in range(0, len(flat), _BLOCK):
        block = flat[start : start + _BLOCK].T.astype(np.float64, order="C")
        sums[0] += block.sum(axis=1)
        # No product of matrices: BLAS would start more threads in each of these threads.
        sums[1] += np.einsum("ij,ij->i", block, block)
    return [(int(value), int(square)) for value, square in sums.T]
