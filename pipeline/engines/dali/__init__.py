"""The engine on NVIDIA DALI; nothing outside of this folder imports DALI."""

from __future__ import annotations

from stoker.pipeline.engines.dali.engine import DaliEngine

__all__ = ["DaliEngine"]
