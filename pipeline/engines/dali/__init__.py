"""The engine on NVIDIA DALI; nothing outside of this folder imports DALI."""

from __future__ import annotations

from .engine import DaliEngine

__all__ = ["DaliEngine"]
