"""Fixtures of the tests of sources."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def tree(tmp_path: Path, make_jpeg: Callable[..., bytes]) -> Callable[..., Path]:
    """``tree("cat/a.jpg", ...)`` makes a folder with a small JPEG at each path."""

    def make(*paths: str) -> Path:
        root = tmp_path / "source"
        root.mkdir(exist_ok=True)
        for i, path in enumerate(paths):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(make_jpeg(i))
        return root

    return make
