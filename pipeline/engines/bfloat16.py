"""bfloat16 for libraries that lack it: the upper half of a float32, as uint16."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["to_bfloat16"]


def to_bfloat16(array: Any) -> Any:
    """Bit patterns of float32 rounded to bfloat16, to nearest even, as uint16 of the same shape.

    Args:
        array: A contiguous array of NumPy's, or of a library with its functions.
    """
    bits = array.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
