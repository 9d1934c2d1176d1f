"""Payloads in one file, their rows of an index, and the native engine over them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from helpers.data.pictures import encode
from PIL import Image

from stoker import _native
from stoker.augment import ImageParams
from stoker.formats.codecs.codec import Codec
from stoker.formats.dataset.index import Samples
from stoker.pipeline.engines.base import Engine, EngineSettings, ImageFormat, Result, Work
from stoker.pipeline.engines.native import NativeEngine

SIZE = (48, 64)
OUT = (20, 24)


def picture(seed: int) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), np.uint8)
    return Image.fromarray(pixels).resize((SIZE[1], SIZE[0]), Image.Resampling.BICUBIC)


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
        self.samples = samples_of(payloads, self.path, SIZE, codecs or Codec.JPEG)
        self.params = whole(OUT, SIZE, len(payloads), fill=np.zeros(3, np.uint8))

    def engine(self, threads: int = 2, **options: Any) -> NativeEngine:
        settings: dict[str, Any] = {"depth": 2, "max_pixels": 10**6, **options}
        size = self.path.stat().st_size
        return NativeEngine(
            EngineSettings([str(self.path)], [size], ImageFormat(), num_threads=threads, **settings)
        )

    def execute(self, **options: Any) -> Result:
        return run_once(self.engine(**options), Work(self.samples, self.params))
