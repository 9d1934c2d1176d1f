"""Perceptual hashes of images: similar images have hashes that differ in few bits.

The hash is pHash in the form of ``phash`` of the package imagehash (github.com/JohannesBuchner/imagehash),
after Zauner, "Implementation and benchmarking of perceptual image hash functions", 2010: the luma (ITU-R
BT.601) of the image at 32x32, its DCT-II, and for each of the 8x8 lowest frequencies whether it is above
their median. Other programs resize differently, so their hashes differ in some bits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from stoker.augment import Resize
from stoker.formats.dataset.dataset import Dataset

from ..images.loader import ImageLoader

_SIDE, _LOW = 32, 8
_BATCH = 128
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)
_DCT = np.cos(np.pi / (2 * _SIDE) * np.outer(np.arange(_LOW), 2 * np.arange(_SIDE) + 1)).astype(np.float32)


def perceptual_hashes(images: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Return (N,) uint64, the hashes of (N, 32, 32, 3) uint8 RGB images; the first bit is the highest."""
    luma = images.astype(np.float32) @ _LUMA
    low = (_DCT @ luma @ _DCT.T).reshape(len(images), _LOW * _LOW)
    bits = low > np.median(low, axis=1, keepdims=True)
    return np.packbits(bits, axis=1).view(">u8").reshape(-1).astype(np.uint64)


def hash_images(
    dataset: Dataset, num_threads: int | None, progress: Callable[[int], None]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """Return positions (M,) int64 and hashes (M,) uint64 of the images of a dataset that can be decoded.

    The native engine decodes JPEGs at a reduced size where 32x32 allows it.
    """
    positions, hashes = [], []
    with ImageLoader(
        dataset,
        batch_size=_BATCH,
        transforms=[Resize((_SIDE, _SIDE))],
        dtype="uint8",
        layout="NHWC",
        columns=("image", "row"),
        engine="native",
        num_threads=num_threads,
        on_error="skip",
        max_bad=1.0,
        rank=0,
        world_size=1,
    ) as loader:
        for images, rows in loader:
            positions.append(rows)
            hashes.append(perceptual_hashes(images))
            progress(len(rows))
    return np.concatenate(positions), np.concatenate(hashes)
