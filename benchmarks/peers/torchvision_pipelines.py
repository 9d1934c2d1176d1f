"""The pipelines of torchvision's references, in worker processes of a DataLoader.

The benchmark of rates and ``stoker bench`` compare Stoker's recipes with them. They follow the presets.py of
references/detection, references/segmentation and references/classification of github.com/pytorch/vision, with
tensors. The pipelines for detection end with the resizing that the model itself would do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import stoker

from .base import PeerPayloads, PeerSettings, PeerSource, Unsupported

Pipeline = Callable[[Any], list[Any]]
"""Takes the module ``torchvision.transforms.v2``, and returns transforms."""


def _coco_multiscale(v2: Any) -> list[Any]:
    sides = tuple(range(480, 801, 32))
    return [v2.RandomShortestSize(min_size=sides, max_size=1333), v2.RandomHorizontalFlip()]


def _coco_lsj(v2: Any) -> list[Any]:
    crop = v2.RandomCrop((1024, 1024), pad_if_needed=True, fill=123.0)
    return [v2.ScaleJitter((1024, 1024)), crop, v2.RandomHorizontalFlip()]


def _coco_ssd(v2: Any) -> list[Any]:
    first = [v2.RandomPhotometricDistort(), v2.RandomZoomOut(fill=123.0), v2.RandomIoUCrop()]
    return [*first, v2.RandomHorizontalFlip(), v2.Resize((300, 300))]


def _segmentation(v2: Any, size: int, crop: int, *colors: Any) -> list[Any]:
    first = [v2.RandomResize(size // 2, 2 * size), v2.RandomHorizontalFlip()]
    return [*first, v2.RandomCrop(crop, pad_if_needed=True), *colors]


PIPELINES: dict[str, Pipeline] = {
    "coco-hflip": lambda v2: [v2.RandomHorizontalFlip(), v2.Resize(800, max_size=1333)],
    "coco-lsj": _coco_lsj,
    "coco-multiscale": _coco_multiscale,
    "coco-ssd": _coco_ssd,
    "coco-ssdlite": lambda v2: [v2.RandomIoUCrop(), v2.RandomHorizontalFlip(), v2.Resize((320, 320))],
    "coco-val": lambda v2: [v2.Resize(800, max_size=1333)],
}
"""Transforms of images and boxes by the name of Stoker's recipe."""
MASK_PIPELINES: dict[str, Pipeline] = {
    "ade20k-train": lambda v2: _segmentation(v2, 512, 512, v2.RandomPhotometricDistort()),
    "coco-segmentation": lambda v2: _segmentation(v2, 520, 480),
}
"""The same for images with masks of classes, with the recipe's sizes and colours."""
IMAGE_PIPELINES: dict[str, Pipeline] = {
    "imagenet-train": lambda v2: [v2.RandomResizedCrop(224), v2.RandomHorizontalFlip()],
    "imagenet-val": lambda v2: [v2.Resize(256), v2.CenterCrop(224)],
}
"""The same for images alone."""


@dataclass(frozen=True)
class _Samples:
    """Samples by index: an image as floats, and its boxes and labels."""

    payloads: PeerPayloads
    boxes: Sequence[Any]
    labels: Sequence[Any]
    transform: Any

    def __len__(self) -> int:
        return len(self.payloads)

    def __getitem__(self, index: int) -> Any:
        import torch
        from torchvision import tv_tensors

        from .torchvision_images import decoded

        image = tv_tensors.Image(decoded(self.payloads.payload(index)))
        size = tuple(image.shape[-2:])
        boxes = tv_tensors.BoundingBoxes(torch.from_numpy(self.boxes[index]), format="XYXY", canvas_size=size)
        return self.transform(image, {"boxes": boxes, "labels": torch.from_numpy(self.labels[index])})


@dataclass(frozen=True)
class _MaskSamples:
    """Samples by index: an image as floats, and its mask of classes or, without masks, its index."""

    payloads: PeerPayloads
    masks: Sequence[bytes] | None
    transform: Any

    def __len__(self) -> int:
        return len(self.payloads)

    def __getitem__(self, index: int) -> Any:
        import torch
        from torchvision import io, tv_tensors

        from .torchvision_images import decoded

        image = tv_tensors.Image(decoded(self.payloads.payload(index)))
        if self.masks is None:
            return self.transform(image), index
        mask = io.decode_png(torch.frombuffer(bytearray(self.masks[index]), dtype=torch.uint8))
        return self.transform(image, tv_tensors.Mask(mask))


def make_batches(source: PeerSource, settings: PeerSettings) -> Any:
    """Return the batches of torchvision's pipeline for a recipe, as tuples of images and of targets."""
    import torch

    try:
        from torchvision.transforms import v2
    except ImportError as error:
        raise Unsupported("torchvision is not installed") from error
    if settings.recipe not in PIPELINES:
        raise Unsupported(f"torchvision has no pipeline like this recipe; it has {', '.join(PIPELINES)}")
    least = v2.SanitizeBoundingBoxes(min_size=max(settings.min_size, 1))
    ends = [v2.ToDtype(torch.float32, scale=True), least, v2.ToPureTensor()]
    every = np.arange(source.records)
    objects = stoker.open(source.dataset).annotations(every).split(len(every))
    samples = _Samples(
        PeerPayloads(source),
        [one.boxes for one in objects],
        [one.labels for one in objects],
        v2.Compose([*PIPELINES[settings.recipe](v2), *ends]),
    )
    return _load(samples, settings, _lists)


def make_mask_batches(source: PeerSource, settings: PeerSettings) -> Any:
    """Return the batches of torchvision's pipeline for a recipe, as images with masks or with indices."""
    import torch
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    dtypes = {tv_tensors.Image: torch.float32, tv_tensors.Mask: torch.int64, "others": None}
    normalize = v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    ends = [v2.ToDtype(dtypes, scale=True), normalize, v2.ToPureTensor()]
    dataset, masks = stoker.open(source.dataset), None
    if settings.recipe in MASK_PIPELINES:
        masks = [dataset.mask(position) for position in range(source.records)]
    make = (MASK_PIPELINES | IMAGE_PIPELINES)[settings.recipe]
    samples = _MaskSamples(PeerPayloads(source), masks, v2.Compose([*make(v2), *ends]))
    return _load(samples, settings, None)


def _load(samples: Any, settings: PeerSettings, collate: Callable[[Any], Any] | None) -> Any:
    import torch

    return torch.utils.data.DataLoader(
        samples,
        batch_size=settings.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=settings.num_threads,
        persistent_workers=True,
        pin_memory=settings.device != "cpu",
        collate_fn=collate,
    )


def _lists(samples: Sequence[Any]) -> tuple[tuple[Any, ...], ...]:
    return tuple(zip(*samples, strict=True))
