"""bfloat16 in the upper half of a float32."""

from __future__ import annotations

import numpy as np

from stoker.augment import reference
from stoker.pipeline.engines.base import to_bfloat16


def test_bfloat16_is_rounded_to_nearest_even() -> None:
    random = np.random.default_rng(0).normal(0, 3, 10_000).astype(np.float32)
    ties = (np.arange(0x3F80_0000, 0x3F90_0000, 0x8000, dtype=np.uint32)).view(np.float32)
    values = np.concatenate([random, ties, -ties])
    expected = reference.convert(values.astype(np.float64), "bfloat16")
    assert np.array_equal(to_bfloat16(values), expected)
    errors = np.abs((expected.astype(np.uint32) << 16).view(np.float32) / values - 1)
    assert errors.max() <= 2**-8
    last_bits = expected[len(random) :] & 1
    assert not last_bits[1::2].any(), "a tie goes to the even neighbour"
