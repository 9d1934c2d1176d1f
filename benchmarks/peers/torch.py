"""PyTorch's DataLoader with worker processes, as in the reference training scripts of torchvision.

With torchvision, ``torchvision.io`` decodes (libjpeg-turbo) and transforms v2 work on uint8 tensors. Without
it, Pillow decodes and resizes, and :mod:`stoker.benchmarks.peers.pixels` draws the crops.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from .base import Payload, PeerPayloads, PeerSettings, PeerSource, Unsupported, worker_options
from .pixels import normalised, random_resized_crop
from .stoker import FilePayloads, write_files

try:
    from .torchvision import TorchvisionImages
except ImportError:
    TorchvisionImages = None  # type: ignore[assignment,misc]  # torchvision is not installed


_PREFETCH = 4
_PREFETCH_LARGE = 2
"""Batches that a worker makes ahead; for large batches the default of torch, which takes less memory."""
_LARGE_BATCH = 256


class TorchSamples(Dataset[tuple[torch.Tensor, int]]):
    """Samples by index, which a worker reads and transforms."""

    def __init__(
        self, payloads: PeerPayloads | FilePayloads, transform: Callable[[Payload], torch.Tensor]
    ) -> None:
        self._payloads = payloads
        self._transform = transform

    def __len__(self) -> int:
        return len(self._payloads)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self._transform(self._payloads.payload(index)), int(self._payloads.label[index])


class WithPillow:
    """Makes a sample with Pillow."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._rng: random.Random | None = None

    def __call__(self, payload: Payload) -> torch.Tensor:
        from PIL import Image

        if self._rng is None:  # the first sample of this worker, which has its own seed from torch
            self._rng = random.Random(torch.initial_seed())  # noqa: S311 - crops, not secrets
        if isinstance(payload, np.ndarray):
            image = Image.fromarray(payload)
        else:
            image = Image.open(io.BytesIO(payload)).convert("RGB")
        top, left, height, width = random_resized_crop(self._rng, image.height, image.width)
        cropped = image.crop((left, top, left + width, top + height))
        pixels = np.asarray(cropped.resize((self._size, self._size), Image.Resampling.BILINEAR))
        if self._rng.random() < 0.5:
            pixels = pixels[:, ::-1]
        return torch.from_numpy(normalised(pixels))


class TorchLoader:
    """A DataLoader with persistent worker processes."""

    packages: tuple[str, ...] = ("torch", "torchvision", "pillow")
    lead = 0

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        self._device = settings.device
        if settings.recipe:
            return self._prepare_boxes(source, settings)
        transform: Callable[[Payload], torch.Tensor]
        if TorchvisionImages is None:
            notes: tuple[str, ...] = ("torchvision is not installed: Pillow decodes and resizes",)
            transform = WithPillow(settings.size)
        else:
            notes = ()
            transform = TorchvisionImages(settings.size)
        torch.manual_seed(settings.seed)
        self._loader: DataLoader[Any] = DataLoader(
            TorchSamples(self.payloads(source), transform),
            shuffle=True,
            pin_memory=settings.device != "cpu",
            prefetch_factor=_PREFETCH if settings.batch_size < _LARGE_BATCH else _PREFETCH_LARGE,
            **worker_options(settings),
        )
        return notes

    def _prepare_boxes(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        if TorchvisionImages is None:
            raise Unsupported("torchvision is not installed")
        from .torchvision import make_batches

        torch.manual_seed(settings.seed)
        self._loader = make_batches(source, settings)
        without = ("no min_visible",) if settings.min_visible else ()
        return ("images keep their sizes, in a list", *without)

    def payloads(self, source: PeerSource) -> Any:
        return PeerPayloads(source)

    def epoch(self) -> Iterator[Any]:
        for images, _ in self._loader:
            if isinstance(images, tuple):
                yield [image.to(self._device, non_blocking=True) for image in images]
                continue
            yield images.numpy() if self._device == "cpu" else images.to(self._device, non_blocking=True)


class TorchFiles(TorchLoader):
    """The same loader on loose files, which it opens one by one."""

    def write(self, source: PeerSource, settings: PeerSettings) -> None:
        del settings
        write_files(source)

    def payloads(self, source: PeerSource) -> Any:
        return FilePayloads(source)
