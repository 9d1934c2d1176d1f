"""A batch of three copies of a JPEG, as arguments of the C++ module."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from helpers.images import encode, noise
from PIL import Image

from stoker import _native
from stoker.augment import ImageParams
from stoker.formats.codecs.codec import Codec
from stoker.formats.dataset.index import Samples
from stoker.pipeline.engines.base import Engine, EngineSettings, ImageFormat, Result, Work, pack
from stoker.pipeline.engines.native import NativeEngine

N, SOURCE, SIZE = 3, (48, 64), (20, 24)
FILL = (7, 8, 9)


class Batch:
    """Three copies of a JPEG; ``damaged`` damages the second one."""

    def __init__(self, folder: Path, *, damaged: bool = False) -> None:
        payload = encode(noise(0, *SOURCE), quality=90)
        payloads = [payload, payload[:-40] if damaged else payload, payload]
        samples = samples_of(payloads, folder / "shard", SOURCE)
        self.shards = _native.Shards([str(folder / "shard")], [int(samples.length.sum())])
        self.pool = _native.Pool(1)
        self.samples = pack(_native.SAMPLE_COLUMNS, samples)
        self.params = pack(_native.PARAMETER_COLUMNS, whole(SIZE, SOURCE, N, fill=np.array(FILL, np.uint8)))

    def run(self, params: dict[str, Any] | None = None, **others: Any) -> tuple[Any, Any]:
        """Returns the images and the status of each; ``params`` replaces or adds parameters."""
        images, status = np.full((N, *SIZE, 3), 99, np.uint8), np.empty(N, np.uint8)
        job = self.pool.submit(
            self.shards,
            self.samples,
            {**self.params, **(params or {})},
            out=images,
            layout=1,
            status=status,
            max_pixels=10**6,
            verify=False,
            **others,
        )
        job.wait()
        return images, status


def warp_of(matrix: Any, canvas: tuple[int, int] = SIZE, nearest: Any = None) -> dict[str, Any]:
    columns = {
        "warp.matrix": np.tile(np.asarray(matrix, np.float64), (N, 1, 1)),
        "warp.canvas": np.int32(canvas),
    }
    return columns if nearest is None else columns | {"warp.nearest": nearest}


_ALONE = {0x01, *range(0xD0, 0xD9)}


def segments(data: bytes) -> list[tuple[int, bytes]]:
    """Return marker and content of each segment up to the scan, and the scan as content of marker 0."""
    found, offset = [], 2
    while True:
        marker = data[offset + 1]
        assert data[offset] == 0xFF
        if marker in _ALONE:
            offset += 2
            continue
        length = int.from_bytes(data[offset + 2 : offset + 4], "big")
        found.append((marker, data[offset + 4 : offset + 2 + length]))
        offset += 2 + length
        if marker == 0xDA:
            return [*found, (0, data[offset:])]


def restart_interval(data: bytes) -> int:
    """Return the MCUs between two restart markers; 0 if there are none."""
    return next((int.from_bytes(body, "big") for marker, body in segments(data) if marker == 0xDD), 0)


PAYLOAD_SIZE = (48, 64)
OUT = (20, 24)


def picture(seed: int) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), np.uint8)
    return Image.fromarray(pixels).resize((PAYLOAD_SIZE[1], PAYLOAD_SIZE[0]), Image.Resampling.BICUBIC)


GOOD = [encode(picture(seed)) for seed in range(3)]


def photograph(height: int, width: int, seed: int = 0) -> Image.Image:
    """Something between a photograph and noise: coarse colours, fine grain."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (height // 8 + 2, width // 8 + 2, 3), np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC), np.int16)
    grain = rng.integers(-20, 21, smooth.shape, np.int16)
    return Image.fromarray((smooth + grain).clip(0, 255).astype(np.uint8))


def samples_of(
    payloads: Sequence[bytes],
    path: Path,
    size: tuple[int, int],
    codec: Codec | Sequence[Codec] = Codec.JPEG,
    orientation: int = 1,
) -> Samples:
    """Payloads one after the other in the file ``path``, with the rows of an index."""
    path.write_bytes(b"".join(payloads))
    n, length = len(payloads), np.array([len(payload) for payload in payloads], np.int64)
    return Samples(
        row=np.arange(n),
        shard=np.zeros(n, np.int32),
        record=np.arange(n),
        offset=np.cumsum(length) - length,
        length=length,
        crc=np.array([_native.crc32c(payload) for payload in payloads], np.uint32),
        codec=np.array([codec] * n if isinstance(codec, Codec) else codec, np.uint8),
        height=np.full(n, size[0], np.int32),
        width=np.full(n, size[1], np.int32),
        orientation=np.full(n, orientation, np.uint8),
    )


def whole(size: tuple[int, int], source: tuple[int, int], n: int = 1, **fields: Any) -> ImageParams:
    """Parameters of ``n`` samples that show all of the source on all of the output."""
    box = [0, 0, *source]
    params = ImageParams(
        size=size,
        crop=np.tile(box, (n, 1)).astype(np.int32),
        region=np.tile(box, (n, 1)).astype(np.float64),
        dest=np.tile([0, 0, *size], (n, 1)).astype(np.int32),
        flip=np.zeros((n, 2), bool),
        color=np.tile(np.eye(3, 4, dtype=np.float32), (n, 1, 1)),
        fill=np.array([9, 200, 30], np.uint8),
    )
    return replace(params, **fields)


def execute(
    samples: Samples, params: ImageParams, path: Path, output: ImageFormat | None = None, threads: int = 1
) -> Result:
    """One batch of the native engine over the file ``path``."""
    size = path.stat().st_size
    output = output or ImageFormat("uint8", "NHWC")
    engine = NativeEngine(
        EngineSettings([str(path)], [size], output, num_threads=threads, depth=1, max_pixels=10**8)
    )
    return run_once(engine, Work(samples, params))


def run_once(engine: Engine, work: Work) -> Result:
    """The result of one batch; the engine is closed."""
    engine.submit(work)
    result = engine.collect()
    engine.close()
    return result


class Dataset:
    """Payloads in one file, and a batch of all of them."""

    def __init__(self, folder: Path, payloads: list[bytes], codecs: list[Codec] | None = None) -> None:
        self.path = folder / "shard"
        self.samples = samples_of(payloads, self.path, PAYLOAD_SIZE, codecs or Codec.JPEG)
        self.params = whole(OUT, PAYLOAD_SIZE, len(payloads), fill=np.zeros(3, np.uint8))

    def engine(self, threads: int = 2, **options: Any) -> NativeEngine:
        settings: dict[str, Any] = {"depth": 2, "max_pixels": 10**6, **options}
        size = self.path.stat().st_size
        return NativeEngine(
            EngineSettings([str(self.path)], [size], ImageFormat(), num_threads=threads, **settings)
        )

    def execute(self, **options: Any) -> Result:
        return run_once(self.engine(**options), Work(self.samples, self.params))


SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
PNG_KINDS = [(0, 1), (0, 2), (0, 4), (0, 8), (0, 16), (2, 8), (2, 16), (3, 1), (3, 2), (3, 4), (3, 8)]
PNG_KINDS += [(4, 8), (4, 16), (6, 8), (6, 16)]
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
    """A PNG of smooth noise."""
    random = np.random.default_rng(seed)
    shape = (height, width, SAMPLES[color])
    levels = random.integers(0, 1 << bits, shape) // 8 + np.indices(shape).sum(axis=0) * 3
    samples = levels % (1 << bits)
    parts = [samples[y::dy, x::dx] for x, y, dx, dy in _PASSES] if interlaced else [samples]
    stream = zlib.compress(b"".join(_rows(part, bits, random) for part in parts if part.size))
    palette = chunk(b"PLTE", random.bytes(3 * (1 << bits))) if color == 3 else b""
    streams = (stream[at : at + split] for at in range(0, len(stream), split))
    return png_file(height, width, *streams, form=(bits, color, 0, 0, interlaced), before=palette)


def png_file(
    height: int, width: int, *streams: bytes, form: tuple[int, ...] = (8, 0, 0, 0, 0), before: bytes = b""
) -> bytes:
    """A PNG with these IDAT chunks; ``form`` is bits, colour type, compression, filters and interlacing."""
    header = chunk(b"IHDR", struct.pack(">II5B", width, height, *form))
    data = b"".join(chunk(b"IDAT", stream) for stream in streams)
    return b"\x89PNG\r\n\x1a\n" + header + before + data + chunk(b"IEND", b"")


def _rows(samples: np.ndarray, bits: int, random: np.random.Generator) -> bytes:
    """The rows of an image, each with any filter."""
    height = len(samples)
    if bits == 16:
        rows = np.frombuffer(samples.astype(">u2").tobytes(), np.uint8).reshape(height, -1)
    else:
        digits = np.unpackbits(samples.astype(np.uint8).reshape(height, -1, 1), axis=2)[..., 8 - bits :]
        rows = np.packbits(digits.reshape(height, -1), axis=1)
    return filtered(rows, random.integers(5, size=height), max(1, samples.shape[2] * bits // 8))


def filtered(rows: np.ndarray, filters: np.ndarray, step: int = 1) -> bytes:
    """Rows of bytes before compression, each with its filter (PNG 3, 9.2); a pixel has ``step`` bytes."""
    result = []
    above = np.zeros(rows.shape[1], int)
    for kind, row in zip(filters.tolist(), rows.astype(int), strict=True):
        left, corner = (
            np.concatenate((np.zeros(step, int), values[:-step]))[: len(row)] for values in (row, above)
        )
        guess = left + above - corner
        distance = [np.abs(guess - values) for values in (left, above, corner)]
        paeth = np.choose(np.argmin(distance, axis=0), (left, above, corner))
        predicted = (0 * row, left, above, (left + above) // 2, paeth)[kind]
        result.append(bytes([kind]) + ((row - predicted) & 255).astype(np.uint8).tobytes())
        above = row
    return b"".join(result)


WEBP_KINDS: dict[str, dict[str, Any]] = {
    "lossy": {"quality": 80, "method": 0},
    "coarse": {"quality": 5, "method": 0},
    "lossless": {"lossless": True, "quality": 0, "method": 0},
    "lossy with alpha": {"quality": 80, "method": 0, "channels": 4},
    "lossless with alpha": {"lossless": True, "quality": 0, "method": 0, "channels": 4},
    "animated": {"quality": 80, "method": 0, "frames": 3},
    "animated lossless with alpha": {"lossless": True, "quality": 0, "method": 0, "channels": 4, "frames": 2},
    "small on its canvas": {
        "lossless": True,
        "quality": 0,
        "method": 0,
        "channels": 4,
        "frames": 2,
        "free": 6,
    },
}
"""Options of :func:`webp` by a name."""


def webp(
    seed: int, height: int, width: int, *, channels: int = 3, frames: int = 1, free: int = 0, **options: Any
) -> bytes:
    """A WebP of smooth noise; ``free`` pixels at the left and the top are transparent, and not stored."""
    random = np.random.default_rng(seed)
    grid = np.indices((height, width)).sum(axis=0)[..., np.newaxis]
    images = []
    for _ in range(frames):
        noise = random.integers(0, 60, (height, width, channels))
        pixels = ((grid * 3 + noise + 40 * np.arange(channels)) % 256).astype(np.uint8)
        if channels == 4:
            pixels[..., 3] |= 1  # an encoder may change colours where nothing is seen
        pixels[:free] = pixels[:, :free] = 0
        images.append(Image.fromarray(pixels))
    more = {"save_all": True, "append_images": images[1:]} if frames > 1 else {}
    return encode(images[0], "WEBP", **more, **options)
