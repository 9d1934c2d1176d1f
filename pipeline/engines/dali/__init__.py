"""The engine on NVIDIA DALI; nothing outside of this folder imports DALI."""

from __future__ import annotations

from .engine import DaliEngine
from .options import DaliOptions

__all__ = ["DaliEngine", "DaliOptions"]
