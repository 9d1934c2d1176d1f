"""Fixtures of the unit tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from helpers.images import encode
from helpers.shards import Sequences, read_sequences, write_shards
from PIL import Image

from stoker import ImageLoader
from stoker.augment import RandomResizedCrop


def encoded_picture(
    seed: int, kind: str = "JPEG", orientation: int = 1, height: int = 24, width: int = 32
) -> bytes:
    """A smooth picture; see the fixture ``encode_picture``."""
    small = np.random.default_rng(seed).integers(0, 256, (3, 4, 3), np.uint8)
    image = Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)
    return encode(image, kind, orientation if orientation != 1 else 0)


@pytest.fixture
def encode_picture() -> Callable[..., bytes]:
    """``encode_picture(seed, kind="JPEG", orientation=1, height=24, width=32)``, any of Pillow's kinds."""
    return encoded_picture


@pytest.fixture
def memory() -> Any:
    """An object store in memory, empty."""
    fs = fsspec.filesystem("memory")
    fs.store.clear()
    fs.pseudo_dirs[:] = [""]
    return fs


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a cache of indexes that only this test uses."""
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A source of three classes of ten pictures: cat, dog, eel, each with 0.jpg to 9.jpg."""
    root = tmp_path / "photos"
    for label, name in enumerate(("cat", "dog", "eel")):
        (root / name).mkdir(parents=True)
        for i in range(10):
            (root / name / f"{i}.jpg").write_bytes(encoded_picture(10 * label + i))
    return root


@pytest.fixture
def load(thumbnails: Path, open_loader: Callable[..., ImageLoader]) -> Callable[..., ImageLoader]:
    """``load(dataset, **options)``: an ImageLoader of the thumbnails, or of another dataset."""
    defaults = {"batch_size": 16, "transforms": [RandomResizedCrop(8)], "num_threads": 1, "columns": ("row",)}
    return lambda dataset=thumbnails, **options: open_loader(dataset, **{**defaults, **options})


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small dataset of text, see :mod:`helpers.shards`."""
    return write_shards(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def sequences(shards: Path) -> Sequences:
    """The token ids of the dataset of text, see :func:`helpers.shards.read_sequences`."""
    return read_sequences(shards)
