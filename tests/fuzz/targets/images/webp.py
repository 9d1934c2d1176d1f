"""WebP files of every kind for the native decoder: what it decodes must be what Pillow decodes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
from helpers.data.payloads.webp_files import KINDS, webp
from mutations import mutate
from targets.images.images import execute

from stoker import _native
from stoker.errors import StokerError
from stoker.formats.codecs.codec import Codec
from stoker.formats.codecs.decode import decode_for_reference, is_native
from stoker.formats.codecs.header import read_header

_MAX_PIXELS = 1 << 16
_RIFF_HEADER = 8


def make(scratch: Path) -> Callable[[np.random.Generator], bool]:
    """Attack with WebPs; one is accepted if C++ decodes it; without libwebp, if its header is whole."""
    pool = _native.Pool(2)
    path = scratch / "webp-shard"
    return lambda rng: attack(damaged(rng), pool, rng, path)


def damaged(rng: np.random.Generator) -> bytes:
    """A WebP with some damage, most often with the length of the file made anew."""
    options = list(KINDS.values())[int(rng.integers(len(KINDS)))]
    sides = (int(side) for side in rng.integers(options.get("free", 0) + 1, 40, 2))
    data = webp(int(rng.integers(1 << 30)), *sides, **options)
    if rng.random() < 0.2:
        return data
    data = mutate(data, rng)
    if rng.random() < 0.7 and len(data) > _RIFF_HEADER:
        data = data[:4] + struct.pack("<I", len(data) - _RIFF_HEADER) + data[_RIFF_HEADER:]
    return data


def attack(data: bytes, pool: _native.Pool, rng: np.random.Generator, path: Path) -> bool:
    """Decode one input in C++, alone and in a batch, and compare it with Pillow's pixels."""
    try:
        header = read_header(data)
    except StokerError:
        return False
    height, width = header.height, header.width
    if height * width > _MAX_PIXELS:
        return False
    execute(data, height, width, pool, rng, path)
    if header.codec != Codec.WEBP:
        return False
    try:
        pixels, *_ = _native.transcode(data, "none", 0, 0, "raw", 90, "420", _MAX_PIXELS)
    except ValueError:  # also where the module is built without libwebp
        return not is_native(Codec.WEBP)
    expected = decode_for_reference(data, Codec.WEBP, height, width)
    if not np.array_equal(np.frombuffer(pixels, np.uint8).reshape(expected.shape), expected):
        raise AssertionError("C++ decodes other pixels than Pillow")
    return True
