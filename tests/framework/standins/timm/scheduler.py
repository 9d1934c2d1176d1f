"""Stands in for ``timm.scheduler``."""

from __future__ import annotations

import torch

__all__ = ["create_scheduler_v2"]


def create_scheduler_v2(
    optimizer: torch.optim.Optimizer, num_epochs: int
) -> tuple[torch.optim.lr_scheduler.LRScheduler, int]:
    """A cosine, and the number of epochs."""
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, num_epochs), num_epochs
