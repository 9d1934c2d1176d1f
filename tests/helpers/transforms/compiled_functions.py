"""A function with the signature of :class:`stoker.augment.steps.Compiled`, without a compiler."""

from __future__ import annotations

import ctypes
from typing import Any

__all__ = ["darken"]


@ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.c_uint8), ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(ctypes.c_double)
)
def darken(rgb: Any, height: int, width: int, values: Any) -> None:
    """Multiply all levels by the first value; ctypes calls it as compiled code does."""
    for k in range(3 * height * width):
        rgb[k] = int(rgb[k] * values[0])
