"""Images by the decoder and the transforms v2 of torchvision, for peers that leave them to their users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torchvision
from torchvision.transforms import v2

from stoker.benchmarks.peers.base import MEAN, RATIO, SCALE, STD, Payload


def decoded(payload: Payload) -> torch.Tensor:
    """Return (3, H, W) uint8 of the bytes of a JPEG, or of (H, W, 3) uint8 pixels."""
    if isinstance(payload, np.ndarray):
        return torch.from_numpy(payload).permute(2, 0, 1)
    encoded = torch.frombuffer(bytearray(payload), dtype=torch.uint8)
    pixels: torch.Tensor = torchvision.io.decode_jpeg(encoded, mode=torchvision.io.ImageReadMode.RGB)
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
        """Return (3, size, size) float32 of a payload."""
        image: torch.Tensor = self._transforms(decoded(payload))
        return image
