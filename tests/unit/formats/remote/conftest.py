"""Fixtures of caches of blocks."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.loaders import SIZES


@pytest.fixture
def contents() -> list[bytes]:
    """The bytes of files of :data:`helpers.loaders.SIZES`."""
    rng = np.random.default_rng(0)
    return [rng.integers(1, 256, size, np.uint8).tobytes() for size in SIZES]
