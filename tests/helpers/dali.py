"""Batches of a dataset for tests of the DALI engine."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from helpers.images import decode_with_pillow
from helpers.loaders import settings_of
from helpers.payloads import run_once

from stoker.augment import RandomVerticalFlip, Resize, Transform, compile_image, reference
from stoker.augment.params import ImageParams
from stoker.formats.dataset.dataset import Dataset
from stoker.pipeline.engines.base import ImageFormat, Result, Status, Work
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


BORDER = 4


def execute(
    dataset: Dataset, transforms: Sequence[Transform], output: ImageFormat, n: int = 24
) -> tuple[ImageParams, Result]:
    """One batch of the first ``n`` samples, decided and executed."""
    samples = dataset.samples(np.arange(min(n, len(dataset))))
    plan = compile_image(transforms, output.dtype)
    params = plan.draw(samples.height, samples.width, samples.row, seed=5, epoch=0)
    engine = DaliEngine(settings_of(dataset, output, num_threads=2, batch_size=len(samples)))
    return params, run_once(engine, Work(samples, params))


def truth(dataset: Dataset, params: ImageParams, output: ImageFormat) -> np.ndarray[Any, Any]:
    pixels = [decode_with_pillow(dataset.read(i)) for i in range(len(params))]
    images = [reference.execute(params, i, p, output.dtype, output.layout) for i, p in enumerate(pixels)]
    return np.stack(images)


def inside(params: ImageParams) -> np.ndarray[Any, Any]:
    """(N, H, W) bool: pixels further from the edge of the resampled rectangle than ``BORDER``."""
    mask = np.zeros((len(params), *params.size), np.bool_)
    for i, (top, left, height, width) in enumerate(params.dest.tolist()):
        mask[i, top + BORDER : top + height - BORDER, left + BORDER : left + width - BORDER] = True
        vertical, horizontal = (-1 if flip else 1 for flip in params.flip[i, ::-1].tolist())
        mask[i] = mask[i, ::vertical, ::horizontal].copy()
    return mask


def assert_close(
    found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], params: ImageParams, level: float = 1
) -> None:
    """Images of layout NHWC; ``level`` is the value of one of 256 levels."""
    difference = np.abs(found.astype(np.float64) - expected.astype(np.float64)) / level
    assert difference.mean() < 0.5
    assert difference[inside(params)].max() <= 1.01
    assert difference.max() <= 20, "at the border"


def check(dataset: Dataset, transforms: Sequence[Transform], n: int = 24) -> None:
    output = ImageFormat("uint8", "NHWC")
    params, result = execute(dataset, transforms, output, n)
    assert (result.status == Status.OK).all(), result.reason
    assert_close(result.images, truth(dataset, params, output), params)
