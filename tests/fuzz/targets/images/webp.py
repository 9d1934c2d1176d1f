"""WebP files of every kind for the native decoder: what it decodes must be what Pillow decodes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
from helpers.payloads import WEBP_KINDS, webp
from mutations import mutate
from targets.images.images import decoded

from stoker import _native
from stoker.formats.codecs.codec import Codec

_RIFF_HEADER = 8


def make(scratch: Path) -> Callable[[np.random.Generator], bool]:
    """Attack with WebPs; one is accepted if C++ decodes it, or without libwebp if its header is whole."""
    pool = _native.Pool(2)
    path = scratch / "webp-shard"
    return lambda rng: decoded(damaged(rng), Codec.WEBP, pool, rng, path) is not None


def damaged(rng: np.random.Generator) -> bytes:
    """A WebP with some damage, most often with the length of the file made anew."""
    options = list(WEBP_KINDS.values())[int(rng.integers(len(WEBP_KINDS)))]
    sides = (int(side) for side in rng.integers(options.get("free", 0) + 1, 40, 2))
    data = webp(int(rng.integers(1 << 30)), *sides, **options)
    if rng.random() < 0.2:
        return data
    data = mutate(data, rng)
    if rng.random() < 0.7 and len(data) > _RIFF_HEADER:
        data = data[:4] + struct.pack("<I", len(data) - _RIFF_HEADER) + data[_RIFF_HEADER:]
    return data
