"""What examples/frameworks/timm_training.py uses of timm, for machines on which timm cannot be installed.

timm imports torchvision, and PyPI has no build of torchvision for a PyTorch without CUDA.
"""

from __future__ import annotations

from torch import nn

__all__ = ["create_model"]


def create_model(name: str, num_classes: int) -> nn.Module:
    """A network of two convolutions, whatever the name."""
    convolutions = (
        nn.Conv2d(3, 16, 5, stride=4),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2),
    )
    return nn.Sequential(*convolutions, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, num_classes))
