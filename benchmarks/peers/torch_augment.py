"""PyTorch's DataLoader with more of torchvision's transforms v2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stoker.benchmarks.peers.base import JITTER, RAND_AUGMENT
from stoker.benchmarks.peers.torch_loader import TorchLoader

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["TorchJitter", "TorchRandAugment"]


class TorchJitter(TorchLoader):
    """And ColorJitter."""

    def colors(self) -> Sequence[Any]:
        """See :class:`TorchLoader`."""
        from torchvision.transforms import v2

        return (v2.ColorJitter(*JITTER),)


class TorchRandAugment(TorchLoader):
    """And RandAugment."""

    def colors(self) -> Sequence[Any]:
        """See :class:`TorchLoader`; bilinear, as everybody here has it."""
        from torchvision.transforms import InterpolationMode, v2

        return (v2.RandAugment(*RAND_AUGMENT, interpolation=InterpolationMode.BILINEAR),)
