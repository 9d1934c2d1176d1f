"""Fixtures of the tests of the DALI engine: a dataset, and engines over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from helpers.loaders import settings_of

from stoker.formats.dataset.dataset import Dataset
from stoker.formats.open import open as open_dataset
from stoker.pipeline.engines.base import ImageFormat
from stoker.pipeline.engines.dali.engine import DaliEngine


@pytest.fixture
def opened(thumbnails: Path) -> Dataset:
    return open_dataset(thumbnails)


@pytest.fixture
def make(opened: Dataset) -> Iterator[Callable[..., DaliEngine]]:
    """``make(**settings)``: an engine over the thumbnails, which is closed after the test."""
    with ExitStack() as engines:

        def engine(**options: Any) -> DaliEngine:
            settings = {"depth": 2, "batch_size": 4, "max_pixels": 10**6, **options}
            made = DaliEngine(settings_of(opened, ImageFormat("uint8", "NHWC"), **settings))
            return engines.enter_context(closing(made))

        yield engine
