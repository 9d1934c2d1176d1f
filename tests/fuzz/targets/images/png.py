"""PNG files of every kind of pixels for the native decoder: what it decodes must be what Pillow decodes.

Header fields, palette, stream and rows are damaged before the checksums are computed.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from helpers.payloads import PNG_KINDS, chunk, png
from mutations import mutate
from targets.images.images import MAX_DECODED, decoded

from stoker import _native
from stoker.formats.codecs.codec import Codec
from stoker.formats.codecs.decode import decode_channels

_SIGNATURE = 8


def make(scratch: Path) -> Callable[[np.random.Generator], bool]:
    """Attack with PNGs; one is accepted if the native decoder decodes it."""
    pool = _native.Pool(2)
    path = scratch / "png-shard"
    return lambda rng: attack(damaged(rng), pool, rng, path)


def damaged(rng: np.random.Generator) -> bytes:
    """A PNG with some damage, mostly under right checksums."""
    color, bits = PNG_KINDS[int(rng.integers(len(PNG_KINDS)))]
    sides = (int(side) for side in rng.integers(1, 40, 2))
    split = int(rng.choice([1 << 30, 9]))
    data = png(int(rng.integers(1 << 30)), *sides, color, bits, interlaced=bool(rng.integers(2)), split=split)
    if rng.random() < 0.2:
        return mutate(data, rng)
    parts, at = [data[:_SIGNATURE]], _SIGNATURE
    hit = int(rng.integers(4))
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        name, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        if rng.random() < 0.7 and len(parts) == hit + 1:
            body = _rows(body, rng) if name == b"IDAT" and split > length else mutate(body, rng)
        parts.append(chunk(name, body))
        at += 12 + length
    return b"".join(parts)


def _rows(stream: bytes, rng: np.random.Generator) -> bytes:
    """The stream with damaged rows, or damaged itself."""
    try:
        rows = zlib.decompress(stream)
    except zlib.error:  # a part of it, as an IDAT may be empty before it
        return mutate(stream, rng)
    return zlib.compress(mutate(rows, rng)) if rng.random() < 0.7 else mutate(stream, rng)


def attack(data: bytes, pool: _native.Pool, rng: np.random.Generator, path: Path) -> bool:
    """Decode one input in C++ to RGB and to its own channels, and compare both with Pillow's pixels."""
    header = decoded(data, Codec.PNG, pool, rng, path)
    if header is None:
        return False
    height, width = header.height, header.width
    for alpha in (True, False):
        found = _native.decode_stored(
            Codec.PNG, data, alpha, MAX_DECODED, np.array((0, 0, height, width), np.int32)
        )
        if found is not None and header.orientation == 1:
            expected = decode_channels(data, Codec.PNG, height, width, alpha=alpha)
            if found.dtype != expected.dtype or not np.array_equal(found, expected):
                raise AssertionError(f"C++ decodes other channels than Pillow, alpha={alpha}")
    return True
