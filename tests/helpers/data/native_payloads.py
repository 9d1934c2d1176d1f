"""Payloads in one file, and the native engine over them, for the tests of what it does with them."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from stoker import _native
from stoker.augment import ImageParams
from stoker.formats.codecs.codec import Codec
from stoker.formats.dataset.samples import Samples
from stoker.pipeline.engines.base import ImageFormat, Result, Work
from stoker.pipeline.engines.native.engine import NativeEngine

SIZE = (48, 64)
OUT = (20, 24)


def picture(seed: int) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), np.uint8)
    return Image.fromarray(pixels).resize((SIZE[1], SIZE[0]), Image.Resampling.BICUBIC)


def encode(image: Image.Image, form: str = "JPEG", **saved: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **saved)
    return stream.getvalue()


GOOD = [encode(picture(seed)) for seed in range(3)]


class Dataset:
    """Payloads in one file, and a batch of all of them."""

    def __init__(self, folder: Path, payloads: list[bytes], codecs: list[Codec] | None = None) -> None:
        self.path = folder / "shard"
        self.path.write_bytes(b"".join(payloads))
        n = len(payloads)
        length = np.array([len(payload) for payload in payloads], np.int64)
        self.samples = Samples(
            row=np.arange(n),
            shard=np.zeros(n, np.int32),
            record=np.arange(n),
            offset=np.cumsum(length) - length,
            length=length,
            crc=np.array([_native.crc32c(payload) for payload in payloads], np.uint32),
            codec=np.array(codecs or [Codec.JPEG] * n, np.uint8),
            height=np.full(n, SIZE[0], np.int32),
            width=np.full(n, SIZE[1], np.int32),
            orientation=np.ones(n, np.uint8),
        )
        box = np.array([0, 0, *SIZE])
        self.params = ImageParams(
            size=OUT,
            crop=np.tile(box, (n, 1)).astype(np.int32),
            region=np.tile(box, (n, 1)).astype(np.float64),
            dest=np.tile([0, 0, *OUT], (n, 1)).astype(np.int32),
            flip=np.zeros((n, 2), bool),
            color=np.tile(np.eye(3, 4), (n, 1, 1)).astype(np.float32),
            fill=np.zeros(3, np.uint8),
        )

    def engine(self, threads: int = 2, **options: Any) -> NativeEngine:
        settings: dict[str, Any] = {"depth": 2, "max_pixels": 10**6, "verify": True, **options}
        size = self.path.stat().st_size
        return NativeEngine([str(self.path)], [size], ImageFormat(), num_threads=threads, **settings)

    def execute(self, **options: Any) -> Result:
        engine = self.engine(**options)
        engine.submit(Work(self.samples, self.params))
        result = engine.collect()
        engine.close()
        return result
