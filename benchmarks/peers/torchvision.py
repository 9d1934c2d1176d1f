"""Images by the decoder and the transforms v2 of torchvision, for peers that leave them to their users."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import torchvision
from torchvision import tv_tensors
from torchvision.io import ImageReadMode, decode_jpeg, read_file
from torchvision.transforms import v2

import stoker

from .base import (
    MEAN,
    RATIO,
    SCALE,
    STD,
    Payload,
    PeerPayloads,
    PeerSettings,
    PeerSource,
    Unsupported,
    worker_options,
)


def decoded(payload: Payload) -> torch.Tensor:
    """Return (3, H, W) uint8 of the bytes of a JPEG, or of (H, W, 3) uint8 pixels."""
    if isinstance(payload, np.ndarray):
        return torch.from_numpy(payload).permute(2, 0, 1)
    encoded = torch.frombuffer(bytearray(payload), dtype=torch.uint8)
    pixels: torch.Tensor = decode_jpeg(encoded, mode=ImageReadMode.RGB)
    return pixels


def crop_transforms(size: int, scale: tuple[float, float] = SCALE, colors: Sequence[Any] = ()) -> v2.Compose:
    """Return random resized crop, flip, ``colors``, and normalisation to float32."""
    return v2.Compose(
        [
            v2.RandomResizedCrop(size, scale=scale, ratio=RATIO, antialias=True),
            v2.RandomHorizontalFlip(),
            *colors,
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ]
    )


class TorchvisionImages:
    """A function from a payload to the image of a sample: random resized crop, flip, normalise."""

    def __init__(self, size: int, colors: Sequence[Any] = ()) -> None:
        self._transforms = crop_transforms(size, colors=colors)

    def __call__(self, payload: Payload) -> torch.Tensor:
        image: torch.Tensor = self._transforms(decoded(payload))
        return image


_FLIP = v2.RandomHorizontalFlip()
PIPELINES: Mapping[str, Sequence[Any]] = {
    "coco-hflip": (_FLIP, v2.Resize(800, max_size=1333)),
    "coco-lsj": (
        v2.ScaleJitter((1024, 1024)),
        v2.RandomCrop((1024, 1024), pad_if_needed=True, fill=123.0),
        _FLIP,
    ),
    "coco-multiscale": (v2.RandomShortestSize(min_size=tuple(range(480, 801, 32)), max_size=1333), _FLIP),
    "coco-ssd": (
        v2.RandomPhotometricDistort(),
        v2.RandomZoomOut(fill=123.0),
        v2.RandomIoUCrop(),
        _FLIP,
        v2.Resize((300, 300)),
    ),
    "coco-ssdlite": (v2.RandomIoUCrop(), _FLIP, v2.Resize((320, 320))),
    "coco-val": (v2.Resize(800, max_size=1333),),
}
"""Transforms of images and boxes by the name of Stoker's recipe."""
MASK_PIPELINES: Mapping[str, Sequence[Any]] = {
    "ade20k-train": (
        v2.RandomResize(256, 1024),
        _FLIP,
        v2.RandomCrop(512, pad_if_needed=True),
        v2.RandomPhotometricDistort(),
    ),
    "coco-segmentation": (v2.RandomResize(260, 1040), _FLIP, v2.RandomCrop(480, pad_if_needed=True)),
}
"""The same for images with masks of classes, with the recipe's sizes and colours."""
IMAGE_PIPELINES: Mapping[str, Sequence[Any]] = {
    "imagenet-train": (v2.RandomResizedCrop(224), _FLIP),
    "imagenet-val": (v2.Resize(256), v2.CenterCrop(224)),
}
"""The same for images alone."""


@dataclass(frozen=True)
class _Samples:
    """Samples by index: an image, and what ``target`` makes of the index and the image's height and width."""

    payloads: PeerPayloads
    target: Callable[[int, tuple[int, int]], Any]
    transform: Any

    def __len__(self) -> int:
        return len(self.payloads)

    def __getitem__(self, index: int) -> Any:
        image = tv_tensors.Image(decoded(self.payloads.payload(index)))
        return self.transform(image, self.target(index, tuple(image.shape[-2:])))


def _objects(boxes: Sequence[Any], labels: Sequence[Any], index: int, size: tuple[int, int]) -> Any:
    on_image = tv_tensors.BoundingBoxes(torch.from_numpy(boxes[index]), format="XYXY", canvas_size=size)
    return {"boxes": on_image, "labels": torch.from_numpy(labels[index])}


def _mask(masks: Sequence[bytes], index: int, size: tuple[int, int]) -> Any:
    del size
    return tv_tensors.Mask(
        torchvision.io.decode_png(torch.frombuffer(bytearray(masks[index]), dtype=torch.uint8))
    )


def _index(index: int, size: tuple[int, int]) -> int:
    del size
    return index


def make_batches(source: PeerSource, settings: PeerSettings) -> Any:
    """Return the batches of torchvision's pipeline for a recipe, as tuples of images and of targets."""
    if settings.recipe not in PIPELINES:
        raise Unsupported(f"torchvision has no pipeline like this recipe; it has {', '.join(PIPELINES)}")
    least = v2.SanitizeBoundingBoxes(min_size=max(settings.min_size, 1))
    ends = [v2.ToDtype(torch.float32, scale=True), least, v2.ToPureTensor()]
    every = np.arange(source.records)
    objects = stoker.open(source.dataset).annotations(every).split(len(every))
    target = partial(_objects, [one.boxes for one in objects], [one.labels for one in objects])
    samples = _Samples(PeerPayloads(source), target, v2.Compose([*PIPELINES[settings.recipe], *ends]))
    return _load(samples, settings, _lists)


def make_mask_batches(source: PeerSource, settings: PeerSettings) -> Any:
    """Return the batches of torchvision's pipeline for a recipe, as images with masks or with indices."""
    dtypes = {tv_tensors.Image: torch.float32, tv_tensors.Mask: torch.int64, "others": None}
    ends = [v2.ToDtype(dtypes, scale=True), v2.Normalize(MEAN, STD), v2.ToPureTensor()]
    target: Callable[[int, tuple[int, int]], Any] = _index
    if settings.recipe in MASK_PIPELINES:
        dataset = stoker.open(source.dataset)
        target = partial(_mask, [dataset.mask(position) for position in range(source.records)])
    pipeline = {**MASK_PIPELINES, **IMAGE_PIPELINES}[settings.recipe]
    return _load(_Samples(PeerPayloads(source), target, v2.Compose([*pipeline, *ends])), settings, None)


def _load(samples: Any, settings: PeerSettings, collate: Callable[[Any], Any] | None) -> Any:
    return torch.utils.data.DataLoader(
        samples,
        shuffle=True,
        pin_memory=settings.device != "cpu",
        collate_fn=collate,
        **worker_options(settings),
    )


def _lists(samples: Sequence[Any]) -> tuple[tuple[Any, ...], ...]:
    return tuple(zip(*samples, strict=True))


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
class _SizedSamples:
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
        _SizedSamples(paths, transform),
        batch_sampler=sampler,
        collate_fn=collate,
        num_workers=workers,
        persistent_workers=True,
        prefetch_factor=2,
    )


@dataclass(frozen=True)
class _ViewSamples:
    """Samples by index, each a list of views."""

    paths: Sequence[str]
    views: Sequence[Callable[[Pixels], Any]]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> list[Any]:
        pixels = decode_jpeg(read_file(self.paths[index]), mode=ImageReadMode.RGB)
        return [view(pixels) for view in self.views]


def view_batches(
    paths: Sequence[str], views: Sequence[Callable[[Pixels], Any]], *, batch_size: int, workers: int
) -> Any:
    """Return a DataLoader of the views of photographs."""
    return torch.utils.data.DataLoader(
        _ViewSamples(paths, views),
        batch_size=batch_size,
        shuffle=True,
        num_workers=workers,
        persistent_workers=True,
        prefetch_factor=2,
    )
