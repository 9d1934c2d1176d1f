"""Fixtures of the tests of the DALI engine: a dataset, and engines over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.engine_settings import settings_of

from stoker.formats.dataset.dataset import Dataset
from stoker.formats.open import open as open_dataset
from stoker.pipeline.engines.base import ImageFormat
from stoker.pipeline.engines.dali import DaliEngine


@pytest.fixture
def opened(thumbnails: Path) -> Dataset:
    return open_dataset(thumbnails)


@pytest.fixture
def make(opened: Dataset) -> Iterator[Callable[..., DaliEngine]]:
    made = []

    def engine(**options: Any) -> DaliEngine:
        given = {"depth": 2, "batch_size": 4, "max_pixels": 10**6, **options}
        made.append(DaliEngine(settings_of(opened, ImageFormat("uint8", "NHWC"), **given)))
        return made[-1]

    yield engine
    for one in made:
        one.close()
