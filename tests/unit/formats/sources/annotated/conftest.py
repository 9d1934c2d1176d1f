"""Fixtures of the tests of annotated sources."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from helpers.data.annotations.coco_files import write_images

PAGE = Path(__file__).parents[5] / "docs" / "reference" / "errors.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of images, beside which tests write their JSON."""
    write_images(tmp_path)
    return tmp_path


@pytest.fixture
def documented_rows() -> Callable[[Iterable[str]], list[str]]:
    """``documented_rows(formats)``: rows about these formats in the table of docs/reference/errors.md."""

    def rows(formats: Iterable[str]) -> list[str]:
        starts = tuple(f"| {name} |" for name in formats)
        return [row for row in PAGE.read_text().splitlines() if row.startswith(starts)]

    return rows
