"""Fixtures of caches: blocks so small that small files have many, and a dataset of small photographs."""

from pathlib import Path

import pytest

import stoker


@pytest.fixture(autouse=True)
def _small_blocks(small_blocks: None) -> None:
    pass


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """156 small photographs in four shards, about 600 kB."""
    folder = tmp_path_factory.mktemp("source") / "dataset"
    photos = Path(__file__).parents[3] / "examples" / "photos"
    stoker.convert(photos, folder, shards=4, resize="shorter=64", seed=0)
    return folder
