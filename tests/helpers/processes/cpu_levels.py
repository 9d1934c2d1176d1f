"""Batches of the native engine with each instruction set, which a process chooses once."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from stoker.augment import ImageParams
from stoker.formats.dataset.index import Samples
from stoker.types import DType, Layout

BatchForm = tuple[DType, Layout, ImageParams]

PROGRAM = """
import hashlib, pickle, sys
from stoker.pipeline.engines.base import EngineSettings, ImageFormat, Work
from stoker.pipeline.engines.native import NativeEngine
path, bytes, samples, batches = pickle.load(sys.stdin.buffer)
for dtype, layout, params in batches:
    engine = NativeEngine(EngineSettings([path], [bytes], ImageFormat(dtype, layout), max_pixels=10**6))
    engine.submit(Work(samples, params))
    result = engine.collect()
    assert not result.status.any(), result.reason
    print(hashlib.sha256(result.images).hexdigest())
    engine.close()
"""


def digests_at_level(level: str, path: Path, samples: Samples, batches: Sequence[BatchForm]) -> list[str]:
    """Returns a digest of the images of each batch of the samples in a file.

    Args:
        level: The instruction set: "plain", "avx2" or "avx512". A machine without it takes a lower one.
        path: The file with the payloads.
        samples: The samples.
        batches: Dtype, layout and parameters of each batch.
    """
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=pickle.dumps((str(path), path.stat().st_size, samples, list(batches))),
        env={**os.environ, "STOKER_CPU_LEVEL": level},
        capture_output=True,
        check=True,
    )
    digests = done.stdout.decode().split()
    assert len(digests) == len(batches)
    return digests
