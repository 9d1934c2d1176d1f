"""PNG files of every kind of pixels, with every filter, interlaced or not: no library writes all of them."""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Iterator

import numpy as np

__all__ = ["KINDS", "chunk", "png"]

SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
KINDS = [(0, 1), (0, 2), (0, 4), (0, 8), (0, 16), (2, 8), (2, 16), (3, 1), (3, 2), (3, 4), (3, 8)]
KINDS += [(4, 8), (4, 16), (6, 8), (6, 16)]
"""Colour type and bits of a sample (PNG 3, table 8)."""
_PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def chunk(name: bytes, body: bytes) -> bytes:
    """A chunk with its length and checksum."""
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png(
    seed: int,
    height: int,
    width: int,
    color: int,
    bits: int,
    *,
    interlaced: bool = False,
    split: int = 1 << 30,
) -> bytes:
    """A PNG of smooth noise.

    Args:
        seed: Decides the pixels and filters.
        height: Pixels.
        width: Likewise.
        color: Colour type: 0 grey, 2 RGB, 3 palette, 4 grey with alpha, 6 RGB with alpha.
        bits: Bits of a sample.
        interlaced: Whether it is stored in the seven passes of Adam7.
        split: Bytes of an IDAT chunk.
    """
    random = np.random.default_rng(seed)
    shape = (height, width, SAMPLES[color])
    levels = random.integers(0, 1 << bits, shape) // 8 + np.indices(shape).sum(axis=0) * 3
    samples = levels % (1 << bits)
    header = struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, interlaced)
    parts = [samples[y::dy, x::dx] for x, y, dx, dy in _PASSES] if interlaced else [samples]
    rows = b"".join(itertools.chain.from_iterable(_rows(part, bits, random) for part in parts if part.size))
    stream = zlib.compress(rows)
    chunks = [chunk(b"IHDR", header)]
    if color == 3:
        chunks.append(chunk(b"PLTE", random.bytes(3 * (1 << bits))))
    chunks += [chunk(b"IDAT", stream[at : at + split]) for at in range(0, len(stream), split)]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks) + chunk(b"IEND", b"")


def _rows(samples: np.ndarray, bits: int, random: np.random.Generator) -> Iterator[bytes]:
    """The filtered rows of an image, each with the number of its filter."""
    step = max(1, samples.shape[2] * bits // 8)
    above = None
    for line in samples:
        if bits == 16:
            row = np.frombuffer(line.astype(">u2").tobytes(), np.uint8)
        else:
            digits = np.unpackbits(line.astype(np.uint8).reshape(-1, 1), axis=1)[:, 8 - bits :]
            row = np.packbits(digits)
        above = np.zeros_like(row) if above is None else above
        left, corner = (
            np.concatenate((np.zeros(step, int), pixels[:-step]))[: len(row)] for pixels in (row, above)
        )
        up = above.astype(int)
        near = np.abs([up - corner, left - corner, left + up - 2 * corner])
        paeth = np.where(
            near[0] <= np.minimum(near[1], near[2]), left, np.where(near[1] <= near[2], up, corner)
        )
        kind = int(random.integers(5))
        predicted = (np.zeros_like(up), left, up, (left + up) // 2, paeth)[kind]
        yield bytes([kind]) + ((row - predicted) % 256).astype(np.uint8).tobytes()
        above = row
