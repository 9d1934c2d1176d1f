"""Memory of batches that differ in size: as much for each as for the largest so far."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from stoker.pipeline.engines.base import ImageFormat
from stoker.pipeline.engines.native.image_memory import ImageMemory


@dataclass(frozen=True)
class Params:
    image_count: int
    size: tuple[int, int]


@dataclass(frozen=True)
class Work:
    columns: tuple[Params, ...]


def test_a_smaller_batch_takes_the_memory_of_the_largest_so_far() -> None:
    asked: list[int] = []

    def empty(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
        asked.append(math.prod(shape))
        return np.empty(shape, dtype)

    memory = ImageMemory(ImageFormat("float32"), empty)
    shapes = []
    for size in ((4, 6), (8, 8), (2, 3), (8, 8)):
        images, others = memory.arrays(Work((Params(2, size), Params(1, (5, 5)))))  # type: ignore[arg-type]  # stand-in
        assert images.flags.c_contiguous
        assert others.shape == (1, 3, 5, 5)
        shapes.append(images.shape)
    assert shapes == [(2, 3, 4, 6), (2, 3, 8, 8), (2, 3, 2, 3), (2, 3, 8, 8)]
    assert asked[::2] == [144, 384, 384, 384]
