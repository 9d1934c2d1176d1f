"""Batches of changing sizes by torchvision's transforms in workers of torch's DataLoader.

``stoker.benchmarks.images.sizes`` runs them. A sampler of batches decides the size of a batch, and hands it
to the workers beside the numbers of the images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torchvision.io import ImageReadMode, decode_jpeg, read_file
from torchvision.transforms import v2

from stoker.benchmarks.peers.base import MEAN, STD

Pixels = Any
Size = tuple[int, int]

_AFTER = (v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD))
_SIDES = range(160, 289, 32)
_PATCH, _MOST_PATCHES = 16, 256


def _cropped(pixels: Pixels, size: Size) -> Any:
    return v2.Compose([v2.RandomResizedCrop(size, antialias=True), *_AFTER])(pixels)


def _kept(pixels: Pixels, _: Size) -> Any:
    return v2.Compose([v2.RandomShortestSize([256, 288], max_size=480, antialias=True), *_AFTER])(pixels)


def _covered(pixels: Pixels, size: Size) -> Any:
    """Resize an image until it covers a size, and crop it at random."""
    scale = max(size[0] / pixels.shape[1], size[1] / pixels.shape[2])
    sides = [max(size[axis], round(pixels.shape[axis + 1] * scale)) for axis in (0, 1)]
    return v2.Compose([v2.Resize(sides, antialias=True), v2.RandomCrop(size), *_AFTER])(pixels)


def _patches(pixels: Pixels, _: Size) -> Any:
    """(N, 3 * 16 * 16) patches of an image, at most 256, at its own aspect ratio."""
    height, width = pixels.shape[1:]
    scale = (_MOST_PATCHES * _PATCH**2 / (height * width)) ** 0.5
    grid = [max(1, int(side * scale / _PATCH)) for side in (height, width)]
    resized = v2.Compose([v2.Resize([side * _PATCH for side in grid], antialias=True), *_AFTER])(pixels)
    cut = resized.unfold(1, _PATCH, _PATCH).unfold(2, _PATCH, _PATCH)
    return cut.permute(1, 2, 3, 4, 0).reshape(grid[0] * grid[1], -1)


def _stacked(images: Sequence[Any]) -> tuple[Any]:
    return (torch.stack(list(images)),)


def _padded(images: Sequence[Any]) -> tuple[Any]:
    """A batch as torchvision's detection models pad it, to multiples of 32."""
    height, width = (-(-max(image.shape[axis] for image in images) // 32) * 32 for axis in (1, 2))
    batch = images[0].new_zeros((len(images), 3, height, width))
    for slot, image in zip(batch, images, strict=True):
        slot[:, : image.shape[1], : image.shape[2]] = image
    return (batch,)


def _padded_sequences(sequences: Sequence[Any]) -> tuple[Any]:
    """Sequences of patches, padded to the longest, as timm's NaFlex does it."""
    return (torch.nn.utils.rnn.pad_sequence(list(sequences), batch_first=True),)


@dataclass(frozen=True)
class _Samples:
    """Images by number and size."""

    paths: Sequence[str]
    transform: Callable[[Pixels, Size], Any]

    def __getitem__(self, key: tuple[int, Size]) -> Any:
        index, size = key
        return self.transform(decode_jpeg(read_file(self.paths[index]), mode=ImageReadMode.RGB), size)


@dataclass(frozen=True)
class _Sampler:
    """Batches of numbers and sizes in random order."""

    buckets: Sequence[Sequence[int]]  # Groups of images; a batch has images of one
    sizes: Callable[[int], Size]  # Returns the size of a batch of a group
    batch_size: int  # Images of a batch

    def __iter__(self) -> Iterator[list[tuple[int, Size]]]:
        rng = np.random.default_rng()
        batches: list[tuple[int, list[int]]] = []
        for bucket, members in enumerate(self.buckets):
            shuffled = rng.permutation(members).tolist()
            firsts = range(0, len(shuffled), self.batch_size)
            batches += [(bucket, shuffled[first : first + self.batch_size]) for first in firsts]
        for at in rng.permutation(len(batches)).tolist():
            bucket, members = batches[at]
            size = self.sizes(bucket)
            yield [(index, size) for index in members]


def _one(_: int) -> Size:
    return 224, 224


def _drawn(_: int) -> Size:
    side = int(np.random.default_rng().choice(_SIDES))
    return side, side


TORCHVISION_SIZES: Mapping[str, tuple[Any, Any, Any]] = {
    "one size": (_cropped, _stacked, _one),
    "random sizes": (_cropped, _stacked, _drawn),
    "padded": (_kept, _padded, _one),
    "ragged": (_kept, lambda images: (list(images),), _one),
    "buckets": (_covered, _stacked, None),
    "patches": (_patches, _padded_sequences, _one),
}
"""The transform, the collation and the sizes of each kind of batches; None for the shapes of buckets."""


def torchvision_batches(
    kind: str, paths: Sequence[str], buckets: Mapping[Size, Sequence[int]], *, batch_size: int, workers: int
) -> Any:
    """Return a DataLoader of a kind of batches."""
    transform, collate, sizes = TORCHVISION_SIZES[kind]
    groups: Sequence[Sequence[int]] = [range(len(paths))] if sizes else list(buckets.values())
    sampler = _Sampler(groups, sizes or list(buckets).__getitem__, batch_size)
    return torch.utils.data.DataLoader(
        _Samples(paths, transform),
        batch_sampler=sampler,
        collate_fn=collate,
        num_workers=workers,
        persistent_workers=True,
        prefetch_factor=2,
    )
