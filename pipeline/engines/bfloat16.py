"""bfloat16 for libraries that lack it: the upper half of a float32, as uint16."""

from __future__ import annotations

from typing import Any

import numpy as np


def to_bfloat16(array: Any) -> Any:
    """Bits of bfloat16, uint16 of the same shape, rounded to nearest even."""
    bits = array.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
