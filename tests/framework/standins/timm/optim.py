"""Stands in for ``timm.optim``."""

from __future__ import annotations

import torch

__all__ = ["create_optimizer_v2"]


def create_optimizer_v2(model: torch.nn.Module, opt: str, lr: float) -> torch.optim.Optimizer:
    """The one optimizer that the example asks for."""
    assert opt == "adamw"
    return torch.optim.AdamW(model.parameters(), lr=lr)
