"""Fixtures of the tests of sources."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from helpers.annotations import write_coco_images

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "errors.md"


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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of images, beside which tests write their JSON."""
    write_coco_images(tmp_path)
    return tmp_path


@pytest.fixture
def documented_rows() -> Callable[[Iterable[str]], list[str]]:
    """``documented_rows(formats)``: rows about these formats in the table of docs/reference/errors.md."""

    def rows(formats: Iterable[str]) -> list[str]:
        starts = tuple(f"| {name} |" for name in formats)
        return [row for row in PAGE.read_text().splitlines() if row.startswith(starts)]

    return rows


@pytest.fixture
def pictures(encode_picture: Callable[..., bytes]) -> list[bytes]:
    """Seven pictures, JPEGs and PNGs in turn."""
    return [encode_picture(i, ("JPEG", "PNG")[i % 2]) for i in range(7)]
