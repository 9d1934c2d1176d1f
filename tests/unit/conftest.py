"""Fixtures of the unit tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from stoker import ImageLoader
from stoker.augment import RandomResizedCrop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def load(thumbnails: Path) -> Iterator[Callable[..., ImageLoader]]:
    made = []

    def make(**options: Any) -> ImageLoader:
        given = {
            "batch_size": 16,
            "transforms": [RandomResizedCrop(8)],
            "num_threads": 1,
            "columns": ("row",),
            **options,
        }
        made.append(ImageLoader(given.pop("dataset", thumbnails), **given))
        return made[-1]

    yield make
    for loader in made:
        loader.close()
