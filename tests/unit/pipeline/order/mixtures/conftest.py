"""Fixtures of mixtures: three datasets, and loaders of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import stoker
from stoker.augment import Resize

COLUMNS = ("image", "row", "dataset", "label", "key")


@pytest.fixture
def folders(make_dataset: Callable[..., Path], make_jpeg: Callable[..., bytes]) -> list[Path]:
    """Three datasets with 20, 6 and 4 samples, in both containers."""
    payloads = [make_jpeg(i) for i in range(30)]
    parts = payloads[:20], payloads[20:26], payloads[26:]
    kinds = "tfrecord", "lmdb", "tfrecord"
    return [
        make_dataset(kind, part, 2, name=f"dataset {i}")
        for i, (kind, part) in enumerate(zip(kinds, parts, strict=True))
    ]


@pytest.fixture
def load(open_loader: Callable[..., stoker.ImageLoader]) -> Callable[..., stoker.ImageLoader]:
    """``load(dataset, **options)``: an ImageLoader of a dataset or mixture."""
    defaults = {"batch_size": 7, "transforms": [Resize((12, 16))], "columns": COLUMNS, "num_threads": 1}
    return lambda dataset, **options: open_loader(dataset, **{**defaults, **options})
