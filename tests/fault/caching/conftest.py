"""Datasets of small photographs and of text, and caches with many small blocks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

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
    stoker.convert(
        photos,
        folder,
        resize="shorter=64",
        seed=0,
        source_options=stoker.SourceOptions(class_depth=1),
        storage=stoker.ImageStorage(shards=4),
    )
    return folder


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 texts of 1 to 30 bytes in three shards."""
    folder = tmp_path_factory.mktemp("text")
    lines = ["".join(chr(33 + (i * i + j) % 90) for j in range(1 + i % 30)) for i in range(200)]
    (folder / "text.txt").write_text("\n".join(lines))
    stoker.convert_text(
        folder / "text.txt", folder / "dataset", tokenizer="bytes", seed=1, storage=stoker.Storage(shards=3)
    )
    return folder / "dataset"


@pytest.fixture
def server(source: Path, serve: Callable[[Path], Any]) -> Any:
    """A web server with ``source``."""
    return serve(source)
