"""Sources and datasets that change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.options import writer_options

import stoker


def _sample(number: int, names: tuple[str, ...]) -> dict[str, Any]:
    return {
        "image": np.random.default_rng(number).integers(0, 256, (6, 8, 3), np.uint8),
        "key": f"k{number}",
        "boxes": [[0, 0, 4, 4], [1, 1, 3, 5]][: number % 3],
        "box_labels": names[: number % 3],
        "masks": [[[0, 0, 4, 0, 4, 4]], np.eye(6, 8) > 0][: number % 3],
        "segmentation": np.full((6, 8), number, np.uint8),
        "number": number,
        "vector": np.arange(number % 4, dtype=np.float32),
    }


@pytest.fixture
def write_objects(tmp_path: Path, without_waiting_for_the_disk: None) -> Callable[..., Path]:
    """``write_objects(name, numbers, classes)``: a dataset of objects with masks, columns and arrays."""

    def write(name: str, numbers: range, classes: tuple[str, ...] = ("cat", "dog"), **options: Any) -> Path:
        with stoker.Writer(
            tmp_path / name, classes=classes, **writer_options({"shard_records": 3, **options})
        ) as writer:
            for number in numbers:
                writer.write(**_sample(number, classes))
        return tmp_path / name

    return write


@pytest.fixture
def samples() -> Callable[[range], list[dict[str, Any]]]:
    """``samples(numbers)``: the samples of ``write_objects`` as dicts."""
    return lambda numbers: [_sample(number, ("cat", "dog")) for number in numbers]
