"""Batches of a dataset for tests of the DALI engine."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from stoker.augment import RandomVerticalFlip, Resize, compile_image
from stoker.formats.dataset.dataset import Dataset
from stoker.pipeline.engines.base import Work
from stoker.pipeline.engines.dali.engine import DaliEngine

needs_dali = pytest.mark.skipif(
    find_spec("nvidia") is None or find_spec("nvidia.dali") is None,
    reason="DALI is not installed: pip install nvidia-dali-cuda120",
)
PLAIN = [Resize((8, 8))]
FLIPPED = [Resize((8, 8)), RandomVerticalFlip(1)]


def work(opened: Dataset, first: int, transforms: list[Any], n: int = 4) -> Work:
    samples = opened.samples(np.arange(first, first + n))
    return Work(samples, compile_image(transforms).draw(samples.height, samples.width, samples.row, 0, 0))


def images(engine: DaliEngine, *works: Work) -> list[Any]:
    for batch in works:
        engine.submit(batch)
    return [engine.collect().images for _ in works]
