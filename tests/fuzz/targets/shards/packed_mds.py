"""Compressed MDS shards that are damaged before or after their compression."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from helpers.datasets import jpeg
from helpers.shards import shard
from mutations import mutate

from stoker.formats.sources.archives import mds_images

_PACK: dict[str, Callable[[bytes], bytes]] = {
    "zstd": lambda data: bytes(pa.Codec("zstd").compress(data)),
    "br": lambda data: bytes(pa.Codec("brotli").compress(data)),
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "snappy": lambda data: bytes(pa.Codec("snappy").compress(data)),
}


def make(scratch: Path) -> Callable[[np.random.Generator], bool]:
    """Attack with whole files; accepted if an image is found."""
    images = [jpeg(i) for i in range(3)]
    samples = [{"image": image, "label": i, "name": "näme"} for i, image in enumerate(images)]
    whole = shard({"image": "jpeg", "label": "int", "name": "str"}, samples)

    def attack(rng: np.random.Generator) -> bool:
        kind = sorted(_PACK)[int(rng.integers(0, len(_PACK)))]
        inside = bool(rng.integers(0, 2))
        data = _PACK[kind](mutate(whole, rng, edits=3) if inside else whole)
        file = scratch / f"x.mds.{kind}"
        file.write_bytes(data if inside else mutate(data, rng, edits=3))
        images = [fields[0].as_py() for fields in mds_images(str(file), "")]
        assert all(image is None or len(image) < len(whole) for image in images)
        return any(images)

    return attack
